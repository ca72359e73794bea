"""Three epochs of shuffled tiles through pinned tensors of torch, which are lent to the pipeline.

    python3 pinned.py ARRAY

ARRAY has two axes or more, and tiles are 16 x 16 of the last two. Each batch is written into a
tensor of a ring, and no byte of it is copied on the host. With CUDA the tensors are pinned, so that
a batch travels to the GPU while those behind it load; without it the same program runs on the CPU.
The trained value is a mean.
"""

import sys

import torch

import wavetrain
from wavetrain.epoch import Boxes

uri = sys.argv[1]
array = wavetrain.array_info(uri)
tile = (*(1 for _ in array.shape[2:]), 16, 16)
boxes = Boxes(array.shape, tile)
has_gpu = torch.cuda.is_available()
device = torch.device("cuda" if has_gpu else "cpu")
ring = [torch.empty(4, *tile, pin_memory=has_gpu) for _ in range(4)]

config = wavetrain.Config(
    samples_per_batch=4, sample_shape=tile, backend="host", lent_slots=len(ring)
)
travelling = []  # tensors that are copied to the GPU, each with the end of that


def lend_again(pipeline, count):
    """Lends what has arrived, but for so many that may still travel."""
    while len(travelling) > count:
        tensor, arrived = travelling.pop(0)
        if has_gpu:
            arrived.synchronize()
        pipeline.lend(tensor)


with wavetrain.Pipeline(config, fit=[uri]) as pipeline:
    for tensor in ring:
        pipeline.lend(tensor)
    for epoch in range(3):
        order = torch.randperm(len(boxes), generator=torch.Generator().manual_seed(epoch))
        pipeline.push(wavetrain.Sample(uri, boxes.at(n), tag=n) for n in order.tolist())
        total, tiles = torch.zeros((), dtype=torch.float64, device=device), 0
        for batch in pipeline.batches():
            count = len(batch.info.tags)
            values = batch.lent[:count].to(device, non_blocking=True)
            arrived = torch.cuda.current_stream().record_event() if has_gpu else None
            travelling.append((batch.lent, arrived))
            batch.release()
            total += values.sum(dtype=torch.float64)
            tiles += count
            lend_again(pipeline, count=1)
        lend_again(pipeline, count=0)
        print(f"epoch {epoch}: {tiles} tiles, mean {float(total) / values[0].numel() / tiles:.3f}")
