"""The HTTP API as programs and people use it: a real server on loopback over a real lake."""

import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import httpx
import polars as pl
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS, load_all_checks

from crawl_pipeline import erasing, ordering, pulse, worker
from crawl_pipeline.api import tokens
from crawl_pipeline.api.connections import Connection
from crawl_pipeline.api.guarding import MOST_BYTES
from crawl_pipeline.api.serving import MOST_AT_ONCE, ServeError, Where, listen
from crawl_pipeline.core import policy as policies
from crawl_pipeline.lake import Lake
from crawl_pipeline.testing import access_log
from tests.live import small_web
from tests.live.api_server import MINIMAL, OTHER, TOKEN, serving_api

JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with two seeds, which no worker has met."""
    folder = tmp_path_factory.mktemp("api") / "lake"
    ordering.seed(Lake.create(str(folder), 2), ["http://a.test/", "http://b.test/"], tag=None, now=datetime.now(UTC))
    (folder / "policy.toml").write_text(MINIMAL)
    return folder


@pytest.fixture(scope="module")
def api(root: Path):
    """A client of the API of that lake."""
    with serving_api(root) as client:
        yield client


def bare(api: httpx.Client, method: str, path: str, **how: object) -> httpx.Response:
    """A request without the token."""
    with httpx.Client(base_url=api.base_url) as client:
        return client.request(method, path, **how)


def said(answer: httpx.Response) -> str:
    """Why a request was not obeyed."""
    told = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert told["status"] == answer.status_code
    return told["detail"]


def test_without_a_right_token_nothing_is_told_and_nothing_ordered(api, root) -> None:
    before = Lake.open(str(root)).versions()["orders"]

    for wrong in ({}, {"authorization": "Bearer wrong"}, {"authorization": f"Basic {TOKEN}"}, {"authorization": TOKEN}):
        for method, path in (("GET", "/api/v1/status"), ("POST", "/api/v1/seeds"), ("GET", "/api/v1/nowhere")):
            answer = bare(api, method, path, headers=wrong, json={} if method == "POST" else None)
            assert answer.status_code == 401
            assert "Bearer TOKEN" in said(answer)
    assert bare(api, "GET", "/").headers["location"] == "/login"
    assert Lake.open(str(root)).versions()["orders"] == before


def test_a_request_under_another_name_is_refused_however_it_got_here(api) -> None:
    """A page whose name was made to point at this machine (DNS rebinding) sends its own name."""
    strange = (
        "127.0.0.1:80/login?",
        "127.0.0.1/login?",
        "127.0.0.1#",
        "[::1]/login?",
        "127.0.0.1@evil.test",
        "localhost:",
    )
    for host in ("evil.test", "evil.test:80", "127.0.0.1.evil.test", "", *strange):
        answer = bare(api, "POST", "/api/v1/host/a.test/pause", headers={"host": host})
        assert answer.status_code == 421, host
        assert "expected a Host of" in said(answer)
    port = api.base_url.port
    assert api.get("/api/v1/status", headers={"host": f"localhost:{port}"}).status_code == 200


def test_no_answer_lets_pages_of_other_sites_read_it(api) -> None:
    answer = api.get("/api/v1/status", headers={"origin": "http://evil.test"})

    assert not [name for name in answer.headers if name.startswith("access-control-")]
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert api.options("/api/v1/seeds", headers={"origin": "http://evil.test"}).status_code == 405


def test_wrong_requests_are_told_what_was_expected(api) -> None:
    huge = b" " * (MOST_BYTES + 1)
    parts = (huge[:100_000] for _ in range(30))
    for answer, status, words in (
        (api.post("/api/v1/seeds", content=huge), 413, "at most"),
        (api.post("/api/v1/seeds", content=parts), 413, "in parts"),
        (api.post("/api/v1/seeds", content=b"{"), 422, "body"),
        (api.post("/api/v1/seeds", content=b"[" * 100_000, headers=JSON), 400, "body"),
        (api.post("/api/v1/seeds", json={"urls": []}), 422, "urls"),
        (api.post("/api/v1/seeds", json={"urls": ["http://c.test/"], "bnad": 1}), 422, "bnad"),
        (
            api.post("/api/v1/seeds", content=rb'{"urls": ["http://c.test/"], "tag": "\ud800"}', headers=JSON),
            422,
            "tag",
        ),
        (api.post("/api/v1/seeds", json={"urls": ["ftp://c.test/"]}), 422, "expected an http or https URL"),
        (api.post("/api/v1/host/http:%2F%2Fa.test/pause"), 404, "Not Found"),
        (api.post("/api/v1/host/a.test:81/pause"), 422, "did you mean a.test?"),
        (api.post("/api/v1/host/unknown.test/pause"), 422, "check the spelling"),
        (api.post("/api/v1/crawl/policy", json={"set": {"politeness.dealy_s": 5}}), 422, "no such key"),
        (api.post("/api/v1/crawl/policy", json={"per_host_qps": 0}), 422, "greater than 0"),
        (api.post("/api/v1/crawl/policy", json={"respect_robots": False}), 422, "respect_robots"),
        (api.post("/api/v1/crawl/policy", json={"per_host_qps": 1, "set": {"politeness.delay_s": 5}}), 422, "twice"),
        (api.post("/api/v1/crawl/policy", json={"set": {"politeness.delay_s": 0.01}}), 422, "more often"),
        (api.post("/api/v1/host/user@a.test/pause"), 422, "nothing else"),
        (
            api.post("/api/v1/crawl/policy", content=b'{"set": {"recrawl.first_s": NaN}}', headers=JSON),
            422,
            "a finite number",
        ),
        (api.post("/api/v1/forget", json={}), 422, "at least one URL, host or site"),
        (api.get("/api/v1/orders/12345"), 404, "expected the number of an order"),
        (api.get("/api/v1/nowhere"), 404, "Not Found"),
        (api.delete("/api/v1/seeds"), 405, "Method Not Allowed"),
    ):
        assert answer.status_code == status, answer.text
        assert words in said(answer)
        assert "Traceback" not in answer.text


def test_the_same_key_is_one_order_with_one_answer_also_after_a_restart(api, root) -> None:
    key, body = {"idempotency-key": "k-1"}, {"urls": ["http://c.test/"], "priority": "high"}
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: api.post("/api/v1/seeds", json=body, headers=key), range(8)))
    with serving_api(root) as restarted:
        answers.append(restarted.post("/api/v1/seeds", json=body, headers=key))
        other = restarted.post("/api/v1/seeds", json={"urls": ["http://d.test/"]}, headers=key)
        theirs = restarted.post("/api/v1/seeds", json=body, headers={**key, "authorization": f"Bearer {OTHER}"})

    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.text for answer in answers}) == 1
    assert other.status_code == 422
    assert "another request" in said(other)
    assert (theirs.json()["ordered_by"], answers[0].json()["ordered_by"]) == ("other", "operator")
    listed = api.get("/api/v1/orders", params={"kind": "seed", "host": "c.test"}).json()["orders"]
    assert [order["order"] for order in listed] == [theirs.json()["order"], answers[0].json()["order"]]


def test_a_key_holds_though_the_request_would_be_refused_by_now(api) -> None:
    key, body = {"idempotency-key": "k-2"}, {"set": {"delay_s": 9}, "host": "a.test"}
    first = api.post("/api/v1/crawl/policy", json=body, headers=key)
    back = {"unset": ["delay_s"], "host": "a.test"}
    gone = [api.post("/api/v1/crawl/policy", json=back, headers={"idempotency-key": "k-3"}) for _ in range(2)]

    assert api.post("/api/v1/crawl/policy", json=body, headers=key).json() == first.json()
    assert gone[0].json() == gone[1].json()
    assert api.post("/api/v1/crawl/policy", json=back).status_code == 422, "without a key it is a new request"


def test_the_policy_of_the_design_is_set_in_one_order_and_shown(api) -> None:
    asked = {"max_depth": 9, "per_host_qps": 0.25, "per_host_daily_budget": 50, "respect_robots": True,
             "set": {"bands.weights": [8, 4, 2, 1]}}  # fmt: skip
    answer = api.post("/api/v1/crawl/policy", json=asked)
    told = api.get("/api/v1/crawl/policy").json()

    assert answer.json()["count"] == 4, answer.text
    assert told["policy"]["politeness"]["delay_s"] == 4.0
    assert told["policy"]["budget"]["path_depth"] == 9
    assert {one["ordered_by"] for one in told["set"]} == {"operator"}
    wrong = api.post("/api/v1/crawl/policy", json={"set": {"politeness.delay_s": 1, "budget.path_depth": -1}})
    assert wrong.status_code == 422
    assert api.get("/api/v1/crawl/policy").json() == told


def test_a_browser_logs_in_with_a_form_and_its_session_only_reads(api) -> None:
    with httpx.Client(base_url=api.base_url) as browser:
        assert "wrong" in browser.post("/login", data={"token": "no"}).headers["location"]
        assert (
            browser.post("/login", data={"token": TOKEN}, headers={"sec-fetch-site": "cross-site"}).status_code == 401
        )
        assert browser.post("/login", data={"token": TOKEN}, headers={"origin": "http://evil.test"}).status_code == 401
        own = {"origin": str(api.base_url)}
        cookie = browser.post("/login", data={"token": TOKEN}, headers=own).headers["set-cookie"]
        page = browser.get("/")
        with browser.stream("GET", "/api/v1/events") as stream:
            first = next(line for line in stream.iter_lines() if line.startswith("data: "))
        ordered = browser.post("/api/v1/host/a.test/pause")
        hidden = browser.get("/api/v1/orders")
        browser.get("/logout")
        after = browser.get("/api/v1/status")

    assert TOKEN not in cookie
    assert {"HttpOnly", "SameSite=strict"} <= {part.strip() for part in cookie.split(";")}
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "http://" not in page.text
    assert json.loads(first.removeprefix("data: "))["frontier_size"] == 0
    assert (ordered.status_code, hidden.status_code, after.status_code) == (401, 401, 401)


class Impatient(Connection):
    """Waits less, so that the test does."""

    HEAD_S = 0.3


def test_clients_that_fall_silent_within_a_head_keep_nobody_out_for_long(root) -> None:
    """Slow loris: as many connections as the server has, each with a head that never ends, the first or a later one."""
    whole = b"GET /login HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with serving_api(root, Impatient) as api, ExitStack() as open_:
        place = ("127.0.0.1", api.base_url.port)
        silent = [open_.enter_context(socket.create_connection(place)) for _ in range(MOST_AT_ONCE)]
        for number, client in enumerate(silent):
            client.sendall(b"GET /login HTTP/1.1\r\nX: " if number % 2 else whole + b"GET /lo")
        wait_for(lambda: bare(api, "GET", "/login").status_code == 200)
        for client in silent:
            client.settimeout(10)
            while client.recv(65_536):
                pass
        assert bare(api, "GET", "/login").status_code == 200


def test_tokens_are_kept_from_others_and_listening_beyond_loopback_must_be_said(tmp_path) -> None:
    made = tokens.make(tmp_path / "there" / "tokens", "ann")

    assert (tmp_path / "there" / "tokens").stat().st_mode & 0o777 == 0o600
    assert tokens.read(tmp_path / "there" / "tokens").name_of(made) == "ann"
    (tmp_path / "there" / "tokens").chmod(0o640)
    with pytest.raises(tokens.TokenError, match="chmod 600"):
        tokens.read(tmp_path / "there" / "tokens")
    with pytest.raises(tokens.TokenError, match="16 printable characters"):
        tokens.Tokens({"ann": "short"})
    with pytest.raises(ServeError, match="--open-to-network"):
        listen(Where("0.0.0.0", 0))


load_all_checks()
MODES = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
# What the document cannot say: which hosts are known here, and which text is a URL. That tokens are asked for has a
# test of its own: this check takes only headers away that it made up itself.
UNSAYABLE = {"positive_data_acceptance", "ignored_auth"}


def test_whatever_is_sent_is_answered_as_the_document_says(api) -> None:
    """Fuzzed from the OpenAPI document, with requests that fit it and requests that do not."""
    document = schemathesis.openapi.from_url(f"{api.base_url}/api/v1/openapi.json")
    operations = [found.ok() for found in document.get_all_operations()]
    assert len(operations) > 10
    checks = [CHECKS.get_one(name) for name in CHECKS.get_all_names() if name not in UNSAYABLE]

    for operation in operations:
        if operation.path.endswith("/events"):  # which never ends
            continue
        cases = st.one_of([operation.as_strategy(generation_mode=mode) for mode in MODES])

        @settings(max_examples=12, deadline=None, derandomize=True, database=None, phases=[Phase.generate],
                  suppress_health_check=list(HealthCheck))  # fmt: skip
        @given(case=cases)
        def answered(case: schemathesis.Case) -> None:
            case.call_and_validate(headers={"authorization": f"Bearer {TOKEN}"}, checks=checks)

        answered()


def test_after_a_complaint_a_host_is_left_alone_within_a_round_then_erased(tmp_path) -> None:
    """The operator's story, told by the server's own log."""
    with small_web.serving(tmp_path) as web:
        root = small_web.prepared(web, tmp_path)
        lake, host = Lake.open(str(root)), small_web.HOSTS[0]
        policy = policies.load((root / "policy.toml").read_text())
        with serving_api(root) as api, ThreadPoolExecutor(1) as pool:
            working = pool.submit(worker.run, lake, policy, seconds=8)
            wait_for(lambda: asked(tmp_path, host) > 2)
            paused = api.post(f"/api/v1/host/{host}/pause", headers={"idempotency-key": "complaint-17"}).json()
            working.result()
            obeyed = api.get(f"/api/v1/orders/{paused['order']}").json()
            live = api.get("/api/v1/status").json()
            forgotten = api.post("/api/v1/forget", json={"hosts": [host]}).json()
            pending = api.get("/api/v1/explain", params={"url": web.web.seeds[0]}).json()
            worker.run(lake, policy, seconds=2)
            why = api.get("/api/v1/explain", params={"url": web.web.seeds[0]}).json()
            (root / "policy.toml").write_text(MINIMAL)  # which named the host's address
            erased = erasing.erase(lake, policy)
            proof = erasing.proved(lake)
            listed = api.get("/api/v1/orders", params={"host": host}).json()["orders"]

    began = lake.scan("rounds").collect().filter(pl.col("orders_seen") >= paused["order"])["started_at"].min()
    rows = access_log.rows(tmp_path / "access.log")
    after = {row.host for row in rows if row.started_at / 1e6 > began.timestamp()}
    assert obeyed["obeyed"]
    assert host not in after
    assert after, "others are asked on"
    assert live["paused"] == [host]
    assert f"order {forgotten['order']} of operator" in pending["because"]
    assert "until then: its last fetch came to fetched" in pending["because"], "what holds until then is told too"
    assert "it is forgotten, by order" in why["because"]
    assert [(order["kinds"], order["ordered_by"]) for order in listed[:2]] == [(["forget"], "operator"),
                                                                               (["pause"], "operator")]  # fmt: skip
    assert proof.holds, (proof, erased.proof)
    assert erased.orders == (forgotten["order"],)
    assert listed[0]["erased_at"] is not None
    assert lake.scan("pages", where=pl.col("host") == host).collect().is_empty()
    assert pulse.pulse(lake, datetime.now(UTC)).pages_per_sec > 0


def wait_for(holds) -> None:
    """Wait until something is so; a crawl over real sockets goes by the real clock."""
    until = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.05)


def asked(folder: Path, host: str) -> int:
    """How often a host was asked, by its own log."""
    log = folder / "access.log"
    return sum(row.host == host for row in access_log.rows(log)) if log.exists() else 0
