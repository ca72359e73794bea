"""Ranks that save one place for all of them, and go on from it in any number.

    python3 checkpoint_ranks.py ARRAY STATE RANKS [BATCHES]

ARRAY has two axes or more, and tiles are 16 x 16 of the last two. Two epochs of them are added up,
by RANKS processes. STATE is a file; where it exists, the run goes on behind it. With BATCHES it
ends after as many of each rank, as if it had been killed.

A place is saved after a batch that all ranks have had: in between some are a batch ahead. So they
gather their places, and what goes on compares them. Here the processes gather through shared
memory; in a job that is

    places = [None] * world
    torch.distributed.all_gather_object(places, loader.state_dict())
    places = comm.allgather(loader.state_dict())  # or so, with mpi4py
"""

import json
import multiprocessing
import os
import sys
from pathlib import Path

import wavetrain
from wavetrain.epoch import Boxes


class Tiles:
    """The tile to read for each number; nothing is read here."""

    def __init__(self, uri):
        self.uri, info = uri, wavetrain.array_info(uri)
        self.shape, self.dtype = (*(1 for _ in info.shape[2:]), 16, 16), info.dtype
        self.boxes = Boxes(info.shape, self.shape, chunk=info.chunk_shape or 0)

    def __len__(self):
        return len(self.boxes)

    def __getitem__(self, index):
        return wavetrain.Sample(self.uri, self.boxes.at(index), tag=index)


class Ranks:
    """A barrier and an exchange of values between all ranks of a job."""

    def __init__(self, context, world):
        self.world, self.barrier = world, context.Barrier(world, timeout=60)
        self.told = context.Manager().list([None] * world)

    def gather(self, rank, told):
        """The value of each rank, in the order of the ranks."""
        self.told[rank] = told
        self.barrier.wait()
        gathered = list(self.told)
        self.barrier.wait()
        return gathered


def train(rank, ranks, uri, state, limit):
    tiles, total, batches = Tiles(uri), 0, 0
    config = wavetrain.Config(samples_per_batch=2, sample_shape=tiles.shape, dtype=tiles.dtype)
    # Each tile once, because it sums: some ranks get a batch less. Training takes the default.
    options = {"shuffle": True, "seed": 7, "rank": rank, "world": ranks.world, "tail": "short"}
    with wavetrain.DataLoader(tiles, config=config, fit=[uri], **options) as loader:
        if state.exists():
            saved = json.loads(state.read_text())
            loader.load_state_dict(saved["places"])  # of all ranks: refused where they differ
            total = saved["total"] if rank == 0 else 0

        def save():
            gathered = ranks.gather(rank, (loader.state_dict(), total))
            if rank == 0:
                places, totals = zip(*gathered)
                text = json.dumps({"places": places, "total": sum(totals)})
                state.with_suffix(".new").write_text(text)
                os.replace(state.with_suffix(".new"), state)

        for _ in range(loader.epoch, 2):
            shared = min(ranks.gather(rank, loader.left))  # the last batch some may not get
            for number, batch in enumerate(loader, 1):
                with batch:
                    total += int(batch.numpy().sum())
                batches += 1
                if number <= shared:
                    save()
                    if batches == limit:
                        return
            save()  # the epoch is over for all of them
    if rank == 0:
        print(f"all tiles, twice: sum {json.loads(state.read_text())['total']}")


def main():
    uri, state, world, *limit = sys.argv[1:]
    context = multiprocessing.get_context("spawn")
    ranks = Ranks(context, int(world))
    given = (ranks, uri, Path(state), int(limit[0]) if limit else 0)
    processes = [context.Process(target=train, args=(n, *given)) for n in range(ranks.world)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    sys.exit(any(process.exitcode for process in processes))


if __name__ == "__main__":
    main()
