"""A policy is text: what is not known is refused, what is written can be read again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_pipeline.core import policy as policies
from crawl_pipeline.core.policy import Policy, PolicyError

AGENT = '[agent]\nname = "ExampleBot"\ncontact = "https://example.org/bot"\n'

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
url_patterns = st.from_regex(r"[!-~]+", fullmatch=True)
seconds = st.floats(min_value=1e-3, max_value=1e6)
host_rules = st.fixed_dictionaries({}, optional={"delay_s": seconds, "urls": st.integers(1, 10**9)})
host_names = st.from_regex(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*", fullmatch=True)
addresses = st.ip_addresses().map(str)
changes = st.fixed_dictionaries(
    {},
    optional={
        "bands": st.fixed_dictionaries({"weights": st.lists(seconds, min_size=1, max_size=7)}),
        "politeness": st.fixed_dictionaries({}, optional={"delay_s": seconds, "calm_answers": st.integers(1, 100)}),
        "scope": st.fixed_dictionaries(
            {},
            optional={
                "exclude": st.lists(url_patterns, max_size=3),
                "include": st.lists(url_patterns, max_size=3),
                "follow": st.sampled_from(["sites", "hosts", "everywhere"]),
                "nofollow": st.booleans(),
            },
        ),
        "resolver": st.fixed_dictionaries(
            {"hosts": st.dictionaries(text, st.lists(addresses, max_size=2), max_size=3)}
        ),
        "host": st.dictionaries(host_names, host_rules, max_size=3),
    },
)


def test_an_agent_is_all_a_policy_must_have():
    assert policies.load(AGENT).agent.header == "ExampleBot/1.0 (+https://example.org/bot)"


def test_a_crawl_that_will_not_say_who_it_is_does_not_start():
    with pytest.raises(PolicyError, match=r"agent: Field required"):
        policies.load("")


@given(changes)
def test_a_policy_is_read_back_from_what_it_renders(changed):
    policy = Policy.model_validate({"agent": {"name": "ExampleBot", "contact": "mailto:bot@example.org"}} | changed)

    again = policies.load(policies.render(policy))

    assert again == policy
    assert again.id == policy.id


def test_the_rendered_defaults_need_nothing_but_an_agent():
    rendered = policies.render()
    filled = rendered.replace('name = ""', 'name = "ExampleBot"').replace('contact = ""', 'contact = "mailto:b@c.de"')

    assert policies.load(filled) == policies.load('[agent]\nname = "ExampleBot"\ncontact = "mailto:b@c.de"\n')


def test_settings_of_modules_are_put_below_the_rendered_defaults_as_sections():
    filled = (
        policies.render()
        .replace('name = ""', 'name = "ExampleBot"')
        .replace('contact = ""', 'contact = "mailto:b@c.de"')
    )
    filled = (
        filled.replace("use = []", 'use = ["copyright_monitor"]') + "\n[modules.settings.copyright_monitor]\nmost = 3\n"
    )

    assert policies.load(filled).modules.settings == {"copyright_monitor": {"most": 3}}


def test_every_key_says_what_it_means():
    for name, section in policies.sections().items():
        for key, field in section.model_fields.items():
            assert field.description, f"{name}.{key}"


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("[politeness]\ndelay = 1.0\n", r"politeness\.delay: there is no such key; known here: delay_s, "),
        ("[polite]\n", r"polite: there is no such key; known here: agent, round, "),
        ('[host."a.test"]\ndelay = 1.0\n', r"host\.a\.test\.delay: there is no such key; known here: delay_s, urls"),
    ],
)
def test_an_unknown_key_is_refused_naming_what_is_known(toml, message):
    with pytest.raises(PolicyError, match=message):
        policies.load(AGENT + toml)


@pytest.mark.parametrize(
    ("toml", "where"),
    [
        ("[politeness]\ndelay_s = 0\n", "politeness.delay_s"),
        ("[politeness]\ndelay_s = -1.0\n", "politeness.delay_s"),
        ('[politeness]\ndelay_s = "2"\n', "politeness.delay_s"),
        ("[politeness]\ndelay_s = inf\n", "politeness.delay_s"),
        ("[politeness]\ndelay_s = nan\n", "politeness.delay_s"),
        ("[round]\nurls = 1.5\n", "round.urls"),
        ("[robots]\nttl_s = 90000\n", "robots.ttl_s"),
        ("[robots]\nhops = 4\n", "robots.hops"),
        ("[bands]\nweights = []\n", "bands.weights"),
        ("[bands]\ndepth_share = 1.5\n", "bands.depth_share"),
        ('[scope]\nfollow = "all"\n', "scope.follow"),
        ('[addresses]\nallow = ["127.0.0.1/8"]\n', "addresses"),
        ("[scope]\ndepth = true\n", "scope.depth"),
        ("[round]\nseconds = 100.0\n", "must be at least round.seconds"),
        ("politeness = 3\n", "politeness"),
        ("[politeness\n", "not TOML"),
        ("[scope]\n[scope]\n", "fill keys in where they stand"),
    ],
)
def test_a_senseless_value_is_refused_naming_its_key(toml, where):
    with pytest.raises(PolicyError) as refusal:
        policies.load((AGENT + toml) if toml.startswith("[") else toml + AGENT)

    assert where in str(refusal.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [("scope.exclude", "*/größe/*"), ("block.urls", "* private *"), ("budget.skip_extensions", ".pdf"),
     ("fetch.media_types", "html")],
)  # fmt: skip
def test_what_would_match_no_url_or_answer_is_refused_rather_than_do_nothing(key, value):
    section, _, name = key.partition(".")
    with pytest.raises(PolicyError, match=rf"{key}\.0: expected other text, found"):
        policies.load(f'{AGENT}[{section}]\n{name} = ["{value}"]\n')


@pytest.mark.parametrize("name", ["", "Bot/1.0", "Example Bot", "*", "Böt", "Bot1"])
def test_an_agent_name_is_a_product_token(name):
    with pytest.raises(PolicyError, match=r"agent\.name"):
        policies.load(f'[agent]\nname = "{name}"\ncontact = "https://example.org/"\n')


@pytest.mark.parametrize(
    "contact", ["", "example.org", "ftp://example.org/", "mailto:", "https://", "https://b\u00fccher.example/",
                "mailto:bot@\u4f8b\u3048.example", "https://e.example/\\u007f", "https://e.example/" + "x" * 999],
)  # fmt: skip
def test_a_contact_is_a_page_or_an_address(contact):
    with pytest.raises(PolicyError, match=r"agent\.contact"):
        policies.load(f'[agent]\nname = "Bot"\ncontact = "{contact}"\n')


def test_any_changed_value_changes_the_id():
    one, other = policies.load(AGENT), policies.load(AGENT + "[politeness]\ndelay_s = 2.5\n")

    assert one.id == policies.load(AGENT + "[politeness]\ndelay_s = 2.0\n").id
    assert one.id != other.id


def test_a_host_rule_counts_for_its_host_and_the_general_value_for_others():
    policy = policies.load(AGENT + '[host."a.test"]\ndelay_s = 9\n[host."b.test"]\nfetches_per_day = 3\n')

    assert (policy.delay_s("a.test"), policy.delay_s("b.test")) == (9.0, 2.0)
    assert (policy.fetches_per_day("a.test"), policy.fetches_per_day("b.test")) == (20_000, 3)


@pytest.mark.parametrize(
    ("section", "says"),
    [
        ('[host."EXAMPLE.org"]\ndelay_s = 9', "EXAMPLE.org"),
        ('[host."http://example.org/"]\ndelay_s = 9', "http://example.org/"),
        ('[resolver]\nname_servers = ["ns.example.org"]', "ns.example.org"),
        ('[resolver.hosts]\n"a.test" = ["here"]', "here"),
        ("[round]\nlease_s = 1e300", "1000000000"),
        ("[round]\nhosts = 99999999999999999999", "1000000000"),
    ],
)
def test_a_rule_that_could_never_hold_is_refused(section, says):
    with pytest.raises(PolicyError, match=says.replace(".", r"\.")):
        policies.load(f"{AGENT}\n{section}\n")


@pytest.mark.parametrize(
    ("key", "says"),
    [
        (
            'hosts = ["b.test", "http://a.test/"]',
            "block.hosts.1: expected other text, found 'http://a.test/' (host names",
        ),
        ('sites = ["www.a.test"]', "found 'www.a.test', a host of a.test: name the site, or use block.hosts"),
        ('networks = ["10.0.0.1/8"]', "block.networks: Value error, 10.0.0.1/8 has host bits set"),
        ('networks = ["everywhere"]', "block.networks: Value error, 'everywhere' does not appear to be"),
    ],
)
def test_what_cannot_be_blocked_is_refused_with_what_to_do(key, says):
    with pytest.raises(PolicyError) as refusal:
        policies.load(f"{AGENT}[block]\n{key}\n")

    assert says in str(refusal.value)


@pytest.mark.parametrize("text", ["x = " + "9" * 5_000, "x = " + "[" * 5_000])
def test_what_the_reader_of_toml_gives_up_on_is_no_policy(text: str) -> None:
    with pytest.raises(PolicyError, match="not TOML"):
        policies.load(text)
