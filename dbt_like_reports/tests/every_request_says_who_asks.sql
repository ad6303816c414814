-- Every request carries the User-Agent that the policy declares, with name and contact.
-- tables: fetches, orders
select fetches.host, fetches.url, fetches.round, fetches.started_at, fetches.user_agent, terms.user_agent as declared
from fetches
join terms using (host, policy_id)
where fetches.user_agent <> terms.user_agent
order by fetches.host, fetches.started_at
