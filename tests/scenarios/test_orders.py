"""People are obeyed: a paused host stays quiet, whenever it was paused, until it may be asked again."""

from crawls import Crawl, policy

from crawl_pipeline.testing import site


def test_a_paused_host_stays_quiet_and_others_are_crawled(tmp_path):
    crawl = Crawl(tmp_path, site("a.test"), site("b.test", pages=5)).seed("http://a.test/", "http://b.test/")

    worked = crawl.order("pause", "a.test").work()

    assert crawl.web.asked("a.test") == []
    assert len(crawl.stored("b.test")) == 5
    assert crawl.tally("left_out")["host paused"] >= 1
    assert worked.stopped != "its time is over"
    crawl.check()


def test_a_host_that_is_resumed_is_crawled(tmp_path):
    crawl = Crawl(tmp_path, site("a.test", pages=3)).seed("http://a.test/").order("pause", "a.test")
    crawl.work()
    crawl.order("resume", "a.test").work()

    assert len(crawl.stored("a.test")) == 3
    crawl.check()


def test_a_host_can_be_paused_before_it_is_known(tmp_path):
    crawl = Crawl(tmp_path, site("a.test", pages=2, links={"/1": ["http://www.a.test/"]}), site("www.a.test"))
    crawl.order("pause", "www.a.test").work()
    crawl.seed("http://a.test/").work()

    assert len(crawl.stored("a.test")) == 2
    assert crawl.web.asked("www.a.test") == []
    assert crawl.url("http://www.a.test/")["status"] == "waiting"
    crawl.check()


def test_a_pause_counts_from_the_next_round_on(tmp_path):
    crawl = Crawl(tmp_path, site("a.test", pages=60), rules=policy(round={"seconds": 5.0, "shortest_s": 2.0}))
    asked: list[int] = []

    def tell(done) -> None:
        asked.append(len(crawl.web.log))
        if len(asked) == 2:
            crawl.order("pause", "a.test")

    crawl.seed("http://a.test/").work(tell=tell)

    assert len(asked) >= 3
    assert len(crawl.web.log) <= asked[1] + 1
    crawl.check()


def test_the_last_word_counts(tmp_path):
    crawl = Crawl(tmp_path, site("a.test", pages=2)).seed("http://a.test/")
    for word in ("pause", "resume", "pause", "resume"):
        crawl.order(word, "a.test")
    crawl.work()

    assert len(crawl.stored("a.test")) == 2


def test_a_seed_of_a_paused_host_waits_for_it(tmp_path):
    crawl = Crawl(tmp_path, site("a.test", pages=2)).order("pause", "a.test").seed("http://a.test/")
    crawl.work()
    assert crawl.web.log == ()

    crawl.wait(3_600)
    crawl.order("resume", "a.test").work()
    assert len(crawl.stored("a.test")) == 2
    crawl.check()
