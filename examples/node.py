"""node.py ARRAY [EPOCHS]: the ranks of a node share one loader.

    torchrun --standalone --nproc-per-node 4 examples/node.py rows.npy
    python examples/node.py rows.npy    # starts four ranks itself

Local rank 0 reads and decodes, for itself and for the others, which take its batches out of memory
that all of them map. A chunk that several ranks need is decoded once. Each rank prints how many
samples it was given and the sum of their elements; a checkpoint of one is good for all.
"""

import os
import subprocess
import sys

import numpy

import wavetrain

RANKS, BATCH = 4, 8


class Rows:
    """Each index along the first axis of an array is a sample."""

    def __init__(self, uri: str) -> None:
        self.uri, info = uri, wavetrain.array_info(uri)
        self.count, self.shape = info.shape[0], (1, *info.shape[1:])

    def __len__(self) -> int:
        return self.count

    def boxes(self, indices: list[int]) -> wavetrain.Column:
        begins = numpy.zeros((len(indices), len(self.shape)), "i8")
        begins[:, 0] = indices
        return wavetrain.Column(self.uri, begins, self.shape)


def train(uri: str, epochs: int) -> None:
    rows, rank = Rows(uri), wavetrain.launchers.who()[0]
    config = wavetrain.Config(samples_per_batch=BATCH, sample_shape=rows.shape)
    order = {"shuffle": True, "tail": "short"}
    with wavetrain.DataLoader(rows, config=config, node="auto", **order) as loader:
        for epoch in range(epochs):
            count, total = 0, 0.0
            for batch in loader:
                with batch:  # x = torch.from_dlpack(batch) is a tensor of the same memory
                    count += len(batch.numpy())
                    total += float(batch.numpy().sum(dtype="f8"))
            # One write: the ranks share a pipe.
            print(
                f"epoch {epoch} rank {rank}: {count} samples, sum {total:.17g}\n",
                end="",
                flush=True,
            )


def start(arguments: list[str]) -> int:
    """Starts a process for each rank, as torchrun does; the number of those that failed."""
    environ = {**os.environ, "MASTER_ADDR": "localhost", "MASTER_PORT": str(os.getpid())}
    environ |= {"WORLD_SIZE": str(RANKS), "LOCAL_WORLD_SIZE": str(RANKS)}
    ranks = [
        subprocess.Popen(
            [sys.executable, __file__, *arguments],
            env={**environ, "RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(RANKS)
    ]
    return sum(rank.wait() != 0 for rank in ranks)


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 3:
        sys.exit(__doc__)
    if "RANK" not in os.environ:
        sys.exit(start(sys.argv[1:]))
    train(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 2)
