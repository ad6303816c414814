-- Requests to a host come from the worker that holds its bucket: the round's own, and never an earlier holder again.
-- tables: fetches, rounds
with asked as (
    select
        fetches.host,
        fetches.url,
        fetches.round,
        fetches.started_at,
        fetches.worker,
        rounds.worker as holder,
        rounds.epoch,
        max(rounds.epoch) over (
            partition by fetches.bucket, fetches.host
            order by fetches.started_at, fetches.request_id
            rows between unbounded preceding and 1 preceding
        ) as epoch_before
    from fetches
    join rounds using (bucket, round)
)

select host, url, round, started_at, worker, holder, epoch, epoch_before
from asked
where worker <> holder or epoch < epoch_before
order by host, started_at
