"""What RFC 9309 asks, where it says so, what we do, and the test that proves it.

`docs.generate` writes it into politeness.md, and tests/test_docs.py holds that every test named there exists.
Invariant: no row without a test.
"""

MATRIX: tuple[tuple[str, str, str], ...] = (
    ("2.1", "groups, rules and their lines are read; a line that is none changes nothing",
     "test_no_file_is_too_strange_to_read"),
    ("2.2", "lines end at CR, LF or CRLF",
     "test_two_readers_that_share_nothing_come_to_one_verdict"),
    ("2.2.1", "the group that names our product token counts, without regard to case; else `*`; several count together",
     "test_two_readers_that_share_nothing_come_to_one_verdict"),
    ("2.2.2", "the longest match decides, Allow on a tie", "test_the_verdict_names_the_longest_line"),
    ("2.2.2", "escaped and plain octets are compared in one spelling",
     "test_two_readers_that_share_nothing_come_to_one_verdict"),
    ("2.2.2", "/robots.txt itself is allowed", "test_the_robots_file_itself_is_always_allowed"),
    ("2.2.3", "`*` and a final `$` are special, nothing else",
     "test_matching_agrees_with_protego_where_protego_follows_the_rfc"),
    ("2.2.4", "other records do not end a group", "test_unknown_records_do_not_end_a_group"),
    ("2.3", "one file per scheme, host and port, asked for before anything else",
     "test_each_origin_of_a_host_has_its_robots_and_all_share_one_turn"),
    ("2.3.1.1", "what it forbids is not asked for", "test_what_robots_forbid_is_never_asked"),
    ("2.3.1.2", "five redirects are followed, to other hosts too; the rules are the first host's",
     "test_robots_that_redirect_to_another_host_are_read_there"),
    ("2.3.1.3", "4xx: no rules (but 429, see 2.3.1.4)", "test_robots_that_are_not_there_allow_everything"),
    ("2.3.1.4", "5xx, 429, network trouble: nothing is asked", "test_robots_that_cannot_be_read_forbid_everything"),
    ("2.3.1.5", "what cannot be parsed is passed over, the rest counts",
     "test_misspelled_records_and_missing_colons_are_forgiven"),
    ("2.4", "an answer counts for a day at most", "test_an_answer_grows_old_in_a_day_and_a_failure_sooner"),
    ("2.5", "the first 500 KiB are read", "test_of_a_robots_txt_without_end_the_first_500_kib_count"),
)  # fmt: skip
