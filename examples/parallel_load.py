"""parallel_load.py FOLDER [K]: numbered .npy files as one array, each rank loads its share of it.

    mpirun -n 4 python parallel_load.py FOLDER    (srun and torchrun will do, too)

Files may have any number of rows: shares are cut by rows, K tiles for each rank. A hole in the
sequence, or a file of another type or shape, is an error.
"""

import sys
import zlib

import wavetrain
from wavetrain.launchers import who
from wavetrain.tiles import Split


def load(folder: str, rank: int, world: int, per_rank: int = 1):
    """The tiles of a rank: the rows that each is, and an array of them. All are one batch, so on a
    GPU, with batch.torch() in the place of batch.numpy(), they are on the rank's own."""
    info = wavetrain.array_info(folder)
    split = Split(info.shape[0], world, per_rank)
    config = wavetrain.Config(
        samples_per_batch=per_rank,
        sample_shape=(split.tile_rows, *info.shape[1:]),
        dtype=info.dtype,
        max_boxes_per_sample=1,  # so that a box may be less than a sample: the last tile
        n_batch_slots=1,
        backend="host",
    )
    tiles, rest = [*split.of_rank(rank)], [(0, extent) for extent in info.shape[1:]]
    with wavetrain.Pipeline(config, fit=[folder]) as pipeline:
        pipeline.push(wavetrain.Sample(folder, [rows, *rest]) for rows in tiles)
        for batch in pipeline.batches():  # one, or none where there are no rows for this rank
            arrays = batch.numpy()  # which outlive batch and pipeline
            return [(rows, a[: rows.stop - rows.start]) for rows, a in zip(tiles, arrays)]
    return []


if __name__ == "__main__":
    rank, world = who()  # what one launcher says, the innermost; half of it is an error
    for rows, tile in load(sys.argv[1], rank, world, *map(int, sys.argv[2:])):
        print(f"rank {rank}: rows {rows.start} to {rows.stop}, crc {zlib.crc32(tile):x}")
