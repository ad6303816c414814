"""A robots.txt that leads to another host: that host is asked as its own pace, its owner and its people allow."""

from functools import partial

import trio
from crawls import BUCKETS, Crawl, policy, taking

from crawl_pipeline.core import urls
from crawl_pipeline.testing import Host, site
from crawl_pipeline.testing.sites import at_first, html, plain, redirect, robots, robots_text, routes, throttled, tree

B = "b.test"
LEADS_TO_B = robots(tree(3), redirect(f"http://{B}/robots.txt"))
NAMES = [f"x{n}.test" for n in range(60)]


def bucket(host: str) -> int:
    return urls.bucket(urls.site(host), BUCKETS)


def leading(count: int, *, same: bool) -> list[str]:
    """Hosts whose robots.txt leads to b.test, and that lie in its bucket or not."""
    return [name for name in NAMES if (bucket(name) == bucket(B)) == same][:count]


def seeds(*hosts: str) -> list[str]:
    return [f"http://{host}/" for host in hosts]


def test_a_host_of_another_worker_is_not_asked_whatever_robots_txt_leads_to_it(tmp_path):
    others = leading(5, same=False)
    crawl = Crawl(tmp_path, site(B, pages=30, first_byte_s=0.5), *(Host(name, LEADS_TO_B) for name in others))
    crawl.seed(*seeds(B, *others))

    async def both() -> None:
        async with trio.open_nursery() as nursery:
            for n in range(BUCKETS):
                nursery.start_soon(partial(crawl.worker, 60, name=f"w{n}", buckets=[n]))

    crawl.run(both)

    assert len(crawl.asked(B)) > 20
    assert {crawl.url(f"http://{name}/")["outcome"] for name in others} == {"robots_unreachable"}
    assert "not leased" in crawl.url(f"http://{others[0]}/")["reason"]
    crawl.check()
    crawl.check_requests()


def test_what_is_known_of_a_host_outlives_its_guests(tmp_path):
    """A 429 and a Crawl-delay are remembered, though a guest was the last who asked."""
    first, second = leading(2, same=True)
    slow = robots(at_first(tree(1), throttled(), requests=1), robots_text(crawl_delay_s=20))
    crawl = Crawl(tmp_path, Host(B, slow), Host(first, LEADS_TO_B), Host(second, LEADS_TO_B))
    crawl.seed(*seeds(B)).work(60)
    known = crawl.rows("hosts").filter(host=B).row(0, named=True)

    for name in (first, second):
        crawl.seed(*seeds(name)).work(100)

    after = crawl.rows("hosts").filter(host=B).row(0, named=True)
    assert known["backoff_s"] > 0
    assert (after["backoff_s"], after["crawl_delay_s"]) == (known["backoff_s"], 20)
    assert {answer["robots_id"] for answer in known["robots"]} <= {answer["robots_id"] for answer in after["robots"]}
    assert all(rest >= 28 - 1e-3 for rest in crawl.web.rests_s(B)[1:])
    assert crawl.web.paths(B).count("/robots.txt") == 3
    crawl.check()


def test_a_host_that_nobody_knows_is_owed_its_rest_by_the_next_worker(tmp_path):
    crawl = Crawl(
        tmp_path, Host(B, robots(tree(1), "")), *(Host(name, LEADS_TO_B) for name in NAMES[:4]), buckets=1,
        rules=policy(politeness={"delay_s": 10.0}),
    )  # fmt: skip

    for name in NAMES[:4]:
        crawl.seed(*seeds(name)).work(1)
    crawl.work(60)

    assert crawl.web.paths(B) == ["/robots.txt"] * 4
    crawl.check(rest_s=10)


def test_a_host_that_nobody_knows_rests_from_the_end_of_a_dead_workers_lease(tmp_path):
    [first, second] = NAMES[:2]
    crawl = Crawl(
        tmp_path, Host(B, robots(tree(1), "")), *(Host(name, LEADS_TO_B) for name in (first, second)), buckets=1,
        rules=policy(politeness={"delay_s": 50.0}),
    ).seed(*seeds(first))  # fmt: skip

    async def killed() -> None:
        with trio.move_on_after(0.5):
            await crawl.worker(in_thread=taking(0.1))

    crawl.run(killed)
    crawl.wait(120)
    crawl.seed(*seeds(second)).work(400, name="w2")

    assert [row.started >= 120 + 50 for row in crawl.web.asked(B)] == [False, True, True]


def test_a_paused_host_is_not_asked_for_the_sake_of_another(tmp_path):
    [name] = leading(1, same=True)
    crawl = Crawl(tmp_path, site(B, pages=3), Host(name, LEADS_TO_B)).order("pause", B)

    crawl.seed(*seeds(name)).work(60)

    assert crawl.web.asked(B) == []
    assert crawl.url(f"http://{name}/")["reason"].endswith(f"{B} is paused")


def test_rules_of_another_host_are_obeyed_once_one_worker_has_both(tmp_path):
    [name] = leading(1, same=False)
    pages = routes({"/": html("Home", ["/no", "/yes"]), "/yes": html("Yes"), "/no": html("No")})
    to_b = Host(name, robots(pages, redirect(f"http://{B}/robots.txt")))
    crawl = Crawl(tmp_path, to_b, Host(B, routes({"/robots.txt": plain(robots_text(["/no"]))})))
    crawl.seed(*seeds(name)).work(30, buckets=[bucket(name)])

    crawl.work(1_000)

    assert crawl.asked(name) == ["/", "/yes"]
    crawl.check()


def test_a_robots_txt_leads_to_no_name_that_cannot_exist(tmp_path):
    crawl = Crawl(tmp_path, Host("a.test", robots(tree(1), redirect("http://../robots.txt"))))

    crawl.seed("http://a.test/").work(60)

    assert "no host name" in crawl.url("http://a.test/")["reason"]
    assert crawl.rows("hosts")["host"].to_list() == ["a.test"]
