"""The command line as a person uses it: each command on a small real web, and what it says when something is wrong."""

import json
import socket
import time
from contextlib import redirect_stderr
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from crawl_pipeline import doctoring
from crawl_pipeline.cli import main
from crawl_pipeline.commands.progress import progress
from crawl_pipeline.core import policy as policies
from crawl_pipeline.core.printable import printable
from crawl_pipeline.core.tables import HOSTS
from crawl_pipeline.display import in_words
from crawl_pipeline.lake import Lake, probing
from tests.live import small_web

MEANING_OF_HOST = next(column.meaning for column in HOSTS.columns if column.name == "host")


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A lake after `crawl run` over the small web, and the web's first seed."""
    folder = tmp_path_factory.mktemp("cli")
    with small_web.serving(folder) as web:
        root = small_web.prepared(web, folder)
        done = crawl(root, "run", "--minutes", "0.15", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["outcomes"]["fetched"] > 0
    return root, web.web.seeds[0]


def crawl(lake: Path | str, *words: str) -> Result:
    """Run one command."""
    return CliRunner().invoke(main, ["--lake", str(lake), *words])


def said(result: Result) -> str:
    """What a failed command told the person; it must not be a traceback."""
    assert result.exit_code != 0
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.output


def test_status_counts_what_the_run_left(crawled) -> None:
    figures = json.loads(crawl(crawled[0], "status", "--json").output)

    assert figures["rounds"]["pages"] == figures["outcomes"]["fetched"] > 0
    assert figures["politeness"]["too_soon"] == 0
    told = crawl(crawled[0], "status").stdout
    assert "known URLs" in told
    assert "not asked for" in told


def test_the_funnel_adds_up(crawled) -> None:
    figures = json.loads(crawl(crawled[0], "funnel", "--json").output)

    assert sum(figures["outcomes"].values()) == figures["rounds"]["selected"]
    assert "sum of outcomes" in crawl(crawled[0], "funnel").output


def test_explain_tells_why_with_facts(crawled) -> None:
    root, seed = crawled

    told = crawl(root, "explain", seed).output
    assert "fetched_count" in told
    assert "paused False" not in told, "what is nought is left out of a host's counters"
    unknown = crawl(root, "explain", "http://nowhere.test/x").output
    as_json = json.loads(crawl(root, "explain", seed, "--json").output)

    assert "its last fetch came to fetched" in told
    assert "status fetched" in told
    assert "no seed names it" in unknown
    assert as_json["frontier"]["status"] == "fetched"


@pytest.mark.parametrize("words", [["explain", "SEED"], ["audit"], ["maintain"], ["status"]])
def test_what_is_shown_fits_a_screen_of_80_columns_with_no_number_broken(crawled, words) -> None:
    root, seed = crawled

    told = crawl(root, *(seed if word == "SEED" else word for word in words)).stdout

    tables = told.splitlines()[2:]  # a sentence is broken by the screen itself
    assert max(map(len, tables)) <= 80, told
    assert not [line for line in tables if line.startswith(" ") and len(line.split()) == 1], told


def test_explain_of_a_past_round_shows_the_draw(crawled) -> None:
    root, seed = crawled
    rounds = "select min(round) as first, min(started_at)::varchar as at from rounds where selected_count > 0"
    first = json.loads(crawl(root, "sql", rounds, "--json").output)[0]

    told = crawl(root, "explain", seed, "--round", str(first["first"])).output
    by_time = json.loads(crawl(root, "explain", seed, "--at", first["at"], "--json").output)

    assert "it was selected: band 1" in told
    assert "draw" in told
    assert by_time["draw"]["quota of its host"] >= 1


def test_another_policy_is_tried_on_a_past_selection(crawled, tmp_path: Path) -> None:
    root, _ = crawled
    strict = tmp_path / "strict.toml"
    strict.write_text((root.parent / "lake" / "policy.toml").read_text().replace("depth = 16", "depth = 0"))
    rounds = "select max(ended_at)::varchar as at from rounds where admitted_count > 3"
    at = json.loads(crawl(root, "sql", rounds, "--json").output)[0]["at"].replace("+00", "")[:-3]

    same = crawl(root, "whatif", "--at", at, "--policy", str(root / "policy.toml"))
    other = json.loads(crawl(root, "whatif", "--at", at, "--policy", str(strict), "--json").output)
    now = json.loads(crawl(root, "whatif", "--policy", str(strict), "--json").output)

    assert "both select the same URLs" in same.output or "nothing is selected" in same.output
    assert sum(row["count"] for one in other for row in one["counts"]) == sum(len(one["urls"]) for one in other)
    assert [one["round"] for one in now] == [None]
    assert "when the lake began" in said(crawl(root, "whatif", "--at", "2001-01-01", "--policy", str(strict)))
    assert "a time such as" in said(crawl(root, "whatif", "--at", "noon", "--policy", str(strict)))


def test_explain_says_what_is_no_url(crawled) -> None:
    assert "not a URL that can be crawled" in crawl(crawled[0], "explain", "ftp://x").output


def test_sql_answers_one_select_and_refuses_the_rest(crawled) -> None:
    rows = json.loads(crawl(crawled[0], "sql", "select count(*) as n from pages", "--json").output)

    assert rows[0]["n"] > 0
    assert "select" in said(crawl(crawled[0], "sql", "drop table pages"))
    assert "frontier" in said(crawl(crawled[0], "sql", "select * from nothing"))


def test_sql_says_what_tables_and_columns_mean(crawled) -> None:
    listed = json.loads(crawl(crawled[0], "sql", "show tables", "--json").output)
    columns = json.loads(crawl(crawled[0], "sql", "describe hosts;", "--json").output)

    assert {"name": "leases", "meaning": "one row is the right to one bucket"} in listed
    assert columns[4] == {"column_name": "host", "column_type": "VARCHAR", "meaning": MEANING_OF_HOST}
    assert 'Did you mean "hosts' in said(crawl(crawled[0], "sql", "describe hostss"))


def test_an_audit_holds_by_our_own_log_and_by_the_servers(crawled) -> None:
    root, _ = crawled
    log = root.parent / "access.log"

    ours, theirs = crawl(root, "audit", "--json"), crawl(root, "audit", "--access-log", str(log), "--json")

    for result in (ours, theirs):
        found = json.loads(result.output)
        assert result.exit_code == 0, found
        assert found["not judged"] == 0
        assert all(promise["judged"] > 0 for promise in found["promises"])
    told = crawl(root, "audit").output
    assert "robots.txt is obeyed" in told
    assert "promises were kept, in " in told
    assert "all hosts" in told


def test_an_audit_names_what_only_the_server_knows_and_fails(crawled, tmp_path: Path) -> None:
    root, _ = crawled
    lines = (root.parent / "access.log").read_text().splitlines()
    (tmp_path / "log").write_text("\n".join([*lines, lines[-1].replace("ExampleBot", "Other")]))

    told = crawl(root, "audit", "--access-log", str(tmp_path / "log"))

    assert told.exit_code == 1
    assert "Server and lake know the same requests" in told.output
    assert json.loads(lines[-1])["path"] in told.output


def test_a_log_of_nginx_is_read_and_other_clients_are_left_out(crawled, tmp_path: Path) -> None:
    root, _ = crawled
    rows = [json.loads(line) for line in (root.parent / "access.log").read_text().splitlines()]
    nginx = [{"host": row["host"], "path": row["path"], "ended": row["ended_at"] / 1e6, "status": row["status"],
              "took": (row["ended_at"] - row["started_at"]) / 1e6, "user_agent": row["user_agent"],
              "client": "127.9.9.9:1234", "retry_after": ""} for row in rows]  # fmt: skip
    visitor = nginx[0] | {"user_agent": "Mozilla/5.0", "client": "203.0.113.7:80"}
    (tmp_path / "log").write_text("\n".join(map(json.dumps, [*nginx, visitor])))

    result = crawl(root, "audit", "--access-log", str(tmp_path / "log"), "--client", "127.9.9.9", "--json")

    assert result.exit_code == 0, result.output
    assert json.loads(result.output)["requests"] == len(rows)


def test_a_log_that_is_none_is_named_with_its_line(crawled, tmp_path: Path) -> None:
    (tmp_path / "log").write_text('127.0.0.1 - - "GET / HTTP/1.1" 200\n')
    assert "line 1: expected a JSON object" in said(crawl(crawled[0], "audit", "--access-log", str(tmp_path / "log")))


def test_explain_shows_the_line_of_robots_txt_and_what_a_second_reader_says(crawled) -> None:
    root, seed = crawled
    found = json.loads(crawl(root, "explain", seed, "--json").output)["robots.txt"]
    assert found["state"] in ("rules", "allow_all")
    if found["state"] == "rules":
        assert found["allowed"] is found["second reader allows"] is True


def test_reports_hold_after_a_crawl(crawled) -> None:
    result = crawl(crawled[0], "reports")

    assert result.exit_code == 0, result.output


def test_a_host_is_paused_and_resumed_by_orders(crawled) -> None:
    assert "gave 1 order; it holds from the next round" in crawl(crawled[0], "pause", small_web.HOSTS[0]).output
    assert "gave 1 order; it holds from the next round" in crawl(crawled[0], "resume", small_web.HOSTS[0]).output
    assert "check the spelling" in said(crawl(crawled[0], "pause", small_web.HOSTS[1], "unknown.test"))


def test_orders_are_listed_with_who_gave_them_and_who_has_still_to_obey(crawled) -> None:
    crawl(crawled[0], "pause", small_web.HOSTS[2])

    told = crawl(crawled[0], "orders", "--kind", "pause", "--host", small_web.HOSTS[2]).stdout
    listed = json.loads(crawl(crawled[0], "orders", "--most", "1", "--json").output)

    assert f"pause {small_web.HOSTS[2]}" in told
    assert "not yet by b" in told
    assert [(one["kinds"], one["count"], len(one["waits_for"])) for one in listed] == [(["pause"], 1, 1)]
    assert listed[0]["ordered_by"] in told
    crawl(crawled[0], "resume", small_web.HOSTS[2])


def test_what_takes_long_is_told_with_its_step_and_what_does_not_is_silent(capsys) -> None:
    with progress("counting") as step:
        step("at once")
    assert capsys.readouterr().err == ""
    with progress("counting", after_s=0.0) as step, redirect_stderr(StringIO()) as told:
        step("one by one")
        while "counting: one by one (0 s)" not in told.getvalue():
            time.sleep(0.01)
    with progress("counting", quiet=True, after_s=0.0):
        pass
    assert capsys.readouterr() == ("", "")


def test_a_doctor_says_what_is_ill_with_name_servers_clock_and_store(crawled, tmp_path: Path) -> None:
    agent = {"name": "TestBot", "contact": "mailto:me@bot.test"}
    silent = policies.Policy.model_validate({"agent": agent, "resolver": {"name_servers": ["127.0.0.1"]}})
    early = datetime(2001, 1, 1, tzinfo=UTC)

    of_names = doctoring.name_servers(silent, port=9)
    of_lake = {one.what: one for one in doctoring.examine(str(crawled[0]), crawled[0] / "policy.toml", early)}
    (tmp_path / "_doctor").write_text("no folder, so that nothing can be written")

    assert not of_names.well
    assert "asked for bot.test, no answer" in of_names.found
    assert not of_lake["clock"].well
    assert "set this clock (NTP)" in of_lake["clock"].found
    assert "of two writers one is refused" in of_lake["store"].found
    assert not (crawled[0] / "_doctor").exists()
    assert "nothing can be written" in probing.probe(str(tmp_path), {}).trouble


def test_a_key_is_set_shown_and_unset(crawled) -> None:
    root = crawled[0]

    crawl(root, "set", "politeness.delay_s", "5")
    crawl(root, "set", "delay_s", "10", "--host", "Slow.Example")
    shown, as_json = crawl(root, "policy").output, json.loads(crawl(root, "policy", "--json").output)
    crawl(root, "unset", "politeness.delay_s")

    assert ": politeness.delay_s = 5\n" in shown
    assert ": delay_s = 10 for slow.example\n" in shown
    assert policies.load(shown).delay_s("slow.example") == 10
    assert [one["host"] for one in as_json["set"]] == [None, "slow.example"]
    assert "settings = {}" not in shown
    assert policies.load(crawl(root, "policy").output).politeness.delay_s == small_web.DELAY_S


def test_of_hashes_a_fact_tells_how_many_there_are() -> None:
    host = {"host": "a.test", "addresses": ["127.0.0.5", "127.0.0.6"], "texts": [-91, 17, 4], "linking_sites": []}

    assert in_words(host) == "host a.test, addresses 127.0.0.5; 127.0.0.6, texts 3, linking_sites -"


def test_explain_tells_of_orders_that_wait_and_of_keys_that_are_set(crawled) -> None:
    root, url = crawled[0], f"http://{small_web.HOSTS[7]}/unknown"

    crawl(root, "set", "delay_s", "3", "--host", small_web.HOSTS[7])
    forgot = crawl(root, "forget", url).output
    told = crawl(root, "explain", url).output

    assert "gave 1 order" in forgot
    assert f"forget {url}" in told
    assert "the next round of bucket" in told
    assert "until then: no seed names it" in " ".join(told.split())
    assert f"delay_s = 3 for {small_web.HOSTS[7]}" in told


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["set", "politeness.delay", "5"], "no such key in [politeness]; known here: delay_s"),
        (["set", "politeness.delay_s", "0"], "greater than 0"),
        (["set", "politeness.delay_s", "fast"], "valid number"),
        (["set", "agent.name", "Other"], "edit the policy file"),
        (["set", "delay_s", "1", "--host", "http://a.test/"], "did you mean a.test?"),
        (["set", "colour", "1", "--host", "a.test"], "known here: delay_s"),
        (["unset", "politeness.read_s"], "is not set by an order"),
        (["recrawl"], "name at least one URL, --host or --site"),
        (["recrawl", "http://h0.test/nowhere", "--host", "h9.test"], "http://h0.test/nowhere: no such url"),
        (["recrawl", "--site", "www.h0.test"], "a host of the site h0.test"),
        (["forget", "--site", "co.uk"], "under which strangers have sites of their own"),
        (["forget", "ftp://a.test/", "http://a.test/"], "these are not URLs that can be crawled"),
        (["forget", "--host", "a b"], "expected a host name"),
        (["forget", "--host", "user@a.test"], "expected a host name and nothing else"),
        (["forget", "--host", "*"], "name each host"),
        (["forget", "--host", "a..test"], "parts of 1 to 63 letters"),
        (["seed", "http://a.test/\nhttp://b.test/"], "without control characters"),
        (["set", "politeness.delay_s", "0.001"], "an order may not ask hosts more often"),
        (["seed", "http://a.test/", "--topic", "maths"], "give --tag NAME"),
        (["seed", "http://a.test/", "--tag", "t", "--band", "0"], "expected a band within 1 and 100"),
        (["seed", "http://a.test/", "--tag", " "], "expected a tag of printable text"),
    ],
)
def test_an_order_that_cannot_be_carried_out_is_told_in_words_and_nothing_is_ordered(crawled, words, told) -> None:
    count = "select count(*) as n from orders"
    before = crawl(crawled[0], "sql", count).stdout

    assert told in said(crawl(crawled[0], *words))
    assert crawl(crawled[0], "sql", count).stdout == before


def test_a_tag_that_is_given_other_facts_is_refused_with_both(crawled) -> None:
    seed = ["seed", "http://a.test/", "--tag", "maths"]

    assert (
        "ordered 1 seed" in crawl(crawled[0], *seed, "--topic", "mathematics", "--region", "eu", "--band", "2").output
    )
    assert "ordered 1 seed" in crawl(crawled[0], *seed, "--region", "eu").output
    told = said(crawl(crawled[0], *seed, "--region", "us"))

    assert "'maths' means topic mathematics, region eu, band 2" in told
    assert "given with region us" in told


def test_doctor_finds_a_lake_well(crawled) -> None:
    told = crawl(crawled[0], "doctor")

    assert (told.exit_code, told.stdout.splitlines()[-1]) == (0, "all is well")


def test_doctor_tells_which_modules_load_and_which_do_not(crawled, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    absent = "tests.modules.hurtful:NeedsWhatIsMissing"
    text = (crawled[0] / "policy.toml").read_text()
    policy.write_text(f'{text}\n[modules]\nuse = ["png_archive", "{absent}"]\n')

    done = crawl(crawled[0], "doctor", "--policy", str(policy), "--json")

    found = {row["what"]: (row["well"], row["found"]) for row in json.loads(done.output)}
    assert done.exit_code == 1
    assert found["module png_archive"] == (True, "read of image/png, into the table images")
    assert found[f"module {absent}"][0] is False
    assert "no_such_package" in found[f"module {absent}"][1]


def test_init_makes_a_policy_to_fill_in_and_a_lake(tmp_path: Path) -> None:
    made = crawl(tmp_path / "lake", "init", "--buckets", "4")

    assert made.exit_code == 0
    assert "fill in name and contact under [agent]" in made.output
    assert "agent.name: expected text, found none: fill it in" in said(crawl(tmp_path / "lake", "run"))
    assert "fill it in" in said(crawl(tmp_path / "lake", "init"))


def test_a_run_that_comes_to_nothing_says_why_by_one_url(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    crawl(lake, "init", "--buckets", "1", "--agent", "TestBot", "--contact", "http://bot.test/")

    assert "no URL is known in these buckets yet: crawl seed URL" in crawl(lake, "run", "--minutes", "0.1").output
    crawl(lake, "seed", "http://127.0.0.1:9/")
    assert (
        "nothing was fetched; of http://127.0.0.1:9/: robots.txt could not be read; not asked (127.0.0.1 leads to"
        in crawl(lake, "run", "--minutes", "0.1").output
    )
    assert "expected a file outside the lake" in said(crawl(lake, "report", "--out", str(lake / "report.html")))


def test_a_port_that_is_taken_is_told_before_dagster_starts(tmp_path: Path) -> None:
    crawl(tmp_path / "lake", "init", "--agent", "TestBot", "--contact", "http://bot.test/")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        told = said(crawl(tmp_path / "lake", "ui", "--port", str(taken.getsockname()[1])))

    assert "found: Address already in use; name another with --port" in told


def test_a_lake_that_is_ready_is_not_made_again(tmp_path: Path) -> None:
    words = ("init", "--agent", "TestBot", "--contact", "http://bot.test/")
    crawl(tmp_path / "lake", *words)

    assert "found one: it is ready for use" in said(crawl(tmp_path / "lake", *words))


def test_a_lake_without_rounds_is_shown_as_one_where_nothing_is_amiss(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    crawl(lake, "init", "--buckets", "4", "--agent", "TestBot", "--contact", "http://bot.test/")

    assert "= 0 selected" in crawl(lake, "funnel").output
    assert "no host has been asked twice" in crawl(lake, "audit").output
    assert "none of 0 pages is a copy" in crawl(lake, "duplicates").output


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["init", "--buckets", "3"], "power of two"),
        (["status"], "found none"),
        (["seed", "http://a.test/"], "found none"),
        (["run", "--minutes", "nan"], "expected minutes"),
        (["run", "--minutes", "0"], "expected minutes"),
        (["ui", "--port", "0"], "is not in the range"),
        (["warc", "out", "--month", "2026-13"], "expected a month such as 2026-03"),
    ],
)
def test_wrong_input_is_told_in_words(tmp_path: Path, words: list[str], told: str) -> None:
    assert told in said(crawl(tmp_path / "lake", *words))


def test_a_lake_cannot_be_a_file_nor_have_a_path_that_delta_misreads(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")

    assert "found the file" in said(crawl(tmp_path / "file" / "lake", "init"))
    assert "without %" in said(crawl(tmp_path / "a%41b", "init"))
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_seeds_are_taken_all_or_none(tmp_path: Path) -> None:
    crawl(tmp_path / "lake", "init")
    (tmp_path / "seeds").write_bytes(b"\xef\xbb\xbf# ours\nhttp://a.test/\nhttp://a.test/#again\n")
    (tmp_path / "latin").write_bytes(b"http://a.test/\xe9\n")

    assert "mailto:x" in said(crawl(tmp_path / "lake", "seed", "http://a.test/", "mailto:x"))
    assert "whole ones are https://" in said(crawl(tmp_path / "lake", "seed", "a.test"))
    assert "in UTF-8" in said(crawl(tmp_path / "lake", "seed", "--file", str(tmp_path / "latin")))
    assert "ordered 1 seed;" in crawl(tmp_path / "lake", "seed", "--file", str(tmp_path / "seeds")).output


def test_a_policy_that_is_not_text_is_told(tmp_path: Path) -> None:
    crawl(tmp_path / "lake", "init")
    (tmp_path / "lake" / "policy.toml").write_bytes(b"\xff\xfe")

    assert "policy.toml" in said(crawl(tmp_path / "lake", "run"))
    assert "policy" in said(crawl(tmp_path / "lake", "doctor"))


def test_what_pages_say_does_not_steer_the_terminal() -> None:
    assert printable("a\x1b[31mb\u202ec\nd") == "a\\u001b[31mb\\u202ec\nd"
    assert in_words({"main_sketch": b"\x1b" * 32}) == "main_sketch 32 bytes"
    assert in_words({"title": "x\x07", "none": None, "at": []}) == "title x\\u0007, at -"


def test_init_is_repeated_where_it_was_killed_before_it_made_the_policy(tmp_path: Path) -> None:
    Lake.create(str(tmp_path / "lake"), 4)

    repeated = crawl(tmp_path / "lake", "init", "--buckets", "8")

    assert repeated.exit_code == 0
    assert "kept the lake" in repeated.output
    assert "with 4 buckets" in repeated.output
    assert "crawl rebucket 8" in repeated.output
    assert (tmp_path / "lake" / "policy.toml").read_text().startswith("# Who we say we are.")
    assert "fill it in" in said(crawl(tmp_path / "lake", "init"))


@pytest.mark.parametrize("value", ["9" * 5_000, "[" * 5_000, "2026-01-01", "12:00:00", "{a = 2026-01-01T00:00:00Z}"])
def test_whatever_a_key_is_set_to_is_refused_in_words_not_by_a_traceback(tmp_path: Path, value: str) -> None:
    crawl(tmp_path / "lake", "init", "--agent", "TestBot", "--contact", "http://bot.test/")

    assert "politeness.delay_s" in said(crawl(tmp_path / "lake", "set", "politeness.delay_s", value))


@pytest.mark.parametrize("at", ["9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59"])
def test_a_time_at_the_end_of_time_is_refused_in_words(crawled, at: str) -> None:
    told = crawl(crawled[0], "explain", "http://a.test/", "--at", at)

    assert told.exit_code == 2
    assert "expected a time such as" in told.output


def test_sql_numbers_columns_that_a_join_brings_twice(crawled) -> None:
    joined = crawl(
        crawled[0], "sql", "--csv", "select 1 a, 2 a, 3 a_1, 4 a from frontier join hosts using (host) limit 1"
    )

    assert joined.stdout.splitlines() == ["a,a_2,a_1,a_3", "1,2,3,4"], "told apart from how far it is"


def test_sql_tells_in_words_what_it_cannot_read_or_show(crawled) -> None:
    assert "no text" in said(crawl(crawled[0], "sql", "select '\udc80'"))
    assert "cast to varchar" in said(crawl(crawled[0], "sql", "select interval 1 day i"))
    assert "[/]" in crawl(crawled[0], "sql", "select repeat('x', 99) \"[/]\", 2 b, 3 c, 4 d, 5 e, 6 f").output


def test_a_tag_is_short_and_an_error_repeats_no_megabyte(crawled) -> None:
    assert "at most 200 characters" in said(crawl(crawled[0], "seed", "http://a.test/", "--tag", "t" * 201))
    assert len(said(crawl(crawled[0], "seed", "http://a.test/" + "x" * 1_000_000))) < 2_000
