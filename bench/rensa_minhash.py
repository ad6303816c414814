"""rensa's MinHash over documents from standard input, lists of words: documents per CPU second, and what it estimates.

Runs in the environment of the peers (bench/peers.txt), so it imports nothing of ours. Both of its ways are tried, a
document at a time and a matrix of all; the faster one counts.
"""

import json
import sys
import time
from typing import Any

from rensa import RMinHash

VALUES, SEED = 128, 1

Documents = list[list[str]]


def main() -> None:
    """Measure and print."""
    documents: Documents
    documents, best = json.load(sys.stdin), 0.0
    for _ in range(int(sys.argv[1])):
        for way in (one_by_one, as_matrix):
            began = time.process_time()
            way(documents)
            best = max(best, len(documents) / (time.process_time() - began))
    made = one_by_one(documents)
    estimates = [a.jaccard(b) for a, b in zip(made[::2], made[1::2])]  # noqa: B905 - peers may run another Python
    print(json.dumps({"rate": best, "estimates": estimates}))


def one_by_one(documents: Documents) -> list[Any]:
    """A MinHash object for each."""
    made = []
    for document in documents:
        one = RMinHash(VALUES, SEED)
        one.update(shingles(document))
        made.append(one)
    return made


def as_matrix(documents: Documents) -> Any:
    """All at once."""
    return RMinHash.digest_matrix_from_token_byte_sets(
        [[shingle.encode() for shingle in shingles(document)] for document in documents], VALUES, SEED
    )


def shingles(document: list[str]) -> list[str]:
    """Distinct three words in a row."""
    return [" ".join(three) for three in {*zip(document, document[1:], document[2:])}]  # noqa: B905


if __name__ == "__main__":
    main()
