"""What it takes to recall a note among many, and how well the encoder finds notes across languages.

    python -m tests.benchmarks.memory [--notes 10000] [--rounds 50]

The time is that of one ``recall`` of a worker that has read the namespace: what is new is asked of a real server, the
question is encoded, and compared with all notes; beside it, what numpy alone takes for such a product. The pairs are
``memory_pairs.tsv``: a note, and a question in the other language; a question has found its note when that is the
first of the 200, or among the first five.
"""

import argparse
import asyncio
import random
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ekiden.shared.embedding.encoder import SentenceEncoder, Vectors
from ekiden.shared.embedding.single_thread import single_threaded
from ekiden.shared.memory.base import Namespace, Note, Write
from ekiden.shared.memory.memories import Memories, Wanted
from ekiden.shared.memory.packing import packed
from ekiden.shared.stores.opening import Stores, open_stores
from ekiden.shared.stores.redis import as_any
from tests.servers import shared_url

PAIRS = Path(__file__).with_name("memory_pairs.tsv")
MANY = Namespace("shared", "many")
PAGE = 500


def main() -> None:
    """Print the times, and the shares of questions that find their notes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--notes", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=50)
    args = parser.parse_args()
    asyncio.run(recalled(args.notes, args.rounds))
    pairs = [tuple(line.split("\t")) for line in PAIRS.read_text(encoding="utf-8").splitlines()]
    english = [pair for pair in pairs if pair[0].isascii()]
    print("| question, note | pairs | first | among five | of the right ones, nearness (least tenth) | of no note |")
    print("| --- | --- | --- | --- | --- | --- |")
    tell("Chinese, English", english, pairs)
    tell("English, Chinese", [pair for pair in pairs if pair not in english], pairs)
    tell("both", pairs, pairs)


async def recalled(count: int, rounds: int) -> None:
    """Measure recalls among ``count`` notes."""
    stores = open_stores(shared_url())
    try:
        await as_any(stores.client.flushall())
        await plant(stores, count)
        memories = Memories(stores.memories, SentenceEncoder())
        began, used = time.perf_counter(), time.process_time()
        await memories.all(MANY)
        took = time.perf_counter() - began
        print(f"the first reading of {count:,} notes: {took:.2f} s, {time.process_time() - used:.2f} s of CPU")
        await memories.recall(MANY, "warm", Wanted())
        for how, wanted in (
            ("by meaning", Wanted()),
            ("by meaning, with a half-life", Wanted(threshold=0.25, half_life_s=1e6)),
            ("by words", Wanted("words")),
        ):
            wall, cpu = await median_ms(memories, wanted, rounds)
            print(f"recall {how}: {wall:.1f} ms, {cpu:.1f} ms of CPU (medians of {rounds})")
        print(f"the product alone: {product_ms(count, rounds):.1f} ms")
    finally:
        await stores.close()


async def median_ms(memories: Memories, wanted: Wanted, rounds: int) -> tuple[float, float]:
    """Return what one recall takes: by the clock, and of the CPU of this process."""
    took, used = [], []
    for number in range(rounds):
        began, before = time.perf_counter(), time.process_time()
        await memories.recall(MANY, f"when does parcel {number} leave the warehouse?", wanted)
        took.append((time.perf_counter() - began) * 1000)
        used.append((time.process_time() - before) * 1000)
    return statistics.median(took), statistics.median(used)


def product_ms(count: int, rounds: int) -> float:
    """Return what the comparison takes in numpy."""
    notes, question = vectors(count), vectors(1)[0]
    took = []
    with single_threaded():
        for _ in range(rounds):
            began = time.perf_counter()
            notes @ question
            took.append((time.perf_counter() - began) * 1000)
    return statistics.median(took)


async def plant(stores: Stores, count: int) -> None:
    """Write notes whose vectors are drawn: to encode them would take a minute."""
    draw, made = random.Random(7), vectors(count)
    words = PAIRS.read_text(encoding="utf-8").split()
    for first in range(0, count, PAGE):
        writes = []
        for number in range(first, min(first + PAGE, count)):
            note = Note(id=f"{number:016}", content=" ".join(draw.sample(words, 12)), changed_ms=1, used_ms=1)
            writes.append(Write(note.id, 0, packed(note, made[number], SentenceEncoder().name)))
        assert await stores.memories.write(MANY.id, writes) == "ok"


def vectors(count: int) -> Vectors:
    """Draw vectors of length one."""
    made = np.random.default_rng(7).standard_normal((count, 512)).astype(np.float32)
    lengths: Vectors = np.linalg.norm(made, axis=1, keepdims=True)
    return np.divide(made, lengths)


def tell(name: str, pairs: Sequence[Sequence[str]], everything: Sequence[Sequence[str]]) -> None:
    """Print how many questions find their notes among all, and how near right and wrong ones are."""
    encoder = SentenceEncoder()
    notes = encoder.encode([pair[0] for pair in everything])
    places = [everything.index(pair) for pair in pairs]
    near = encoder.encode([pair[1] for pair in pairs]) @ notes.T
    right = near[np.arange(len(pairs)), places]
    ranks = (near > right[:, None]).sum(axis=1)
    near[np.arange(len(pairs)), places] = -1
    print(
        f"| {name} | {len(pairs)} | {np.mean(ranks < 1):.1%} | {np.mean(ranks < 5):.1%} "
        f"| {np.median(right):.2f} ({np.quantile(right, 0.1):.2f}) | {np.median(near.max(axis=1)):.2f} "
        f"({np.quantile(near.max(axis=1), 0.9):.2f} greatest tenth) |"
    )


if __name__ == "__main__":
    main()
