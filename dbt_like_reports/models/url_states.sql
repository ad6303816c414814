-- Where all known URLs stand: how many are in each state, and what most of them came to.
-- tables: frontier
--   status: frontier state of the URLs
--   url_count: URLs in that state
--   share: of all known URLs
--   host_count: hosts of these URLs
--   due_count: of these URLs, those that may be asked for now
--   most_came_to: what most of their last fetches came to; null: never asked
with counted as (
    select
        status,
        count(*) as url_count,
        count(distinct host) as host_count,
        count(*) filter (due_at <= as_of() and status not in ('parked', 'dead', 'forgotten')) as due_count,
        mode(outcome) as most_came_to
    from frontier
    group by status
)

select
    status,
    url_count,
    url_count / sum(url_count) over () as share,
    host_count,
    due_count,
    most_came_to
from counted
order by url_count desc, status
