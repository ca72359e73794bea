"""Three epochs of shuffled tiles, with a checkpoint after each batch: killed, it goes on there.

    python3 epochs.py ARRAY STATE [BATCHES]

ARRAY has two axes or more, and tiles are 16 x 16 of the last two. STATE is a file; where it exists,
the run goes on behind the batch that it was written after. With BATCHES it ends after as many, as
if it had been killed. What it trains is a mean.
"""

import json
import os
import sys
from pathlib import Path

import wavetrain
from wavetrain.epoch import Boxes, mix

uri, state, *limit = sys.argv[1:]
array = wavetrain.array_info(uri)
tile = (*(1 for _ in array.shape[2:]), 16, 16)
boxes = Boxes(array.shape, tile, chunk=array.chunk_shape or 0)


class Tiles:
    """What is to be read for each number; nothing is read here."""

    def __len__(self):
        return len(boxes)

    def __getitem__(self, index):
        return wavetrain.Sample(uri, boxes.at(index), tag=index)


config = wavetrain.Config(samples_per_batch=4, sample_shape=tile, dtype=array.dtype)
# rank=.. and world=.. give each of many processes its share; one checkpoint is for all of them, and
# for any number of them.
loader = wavetrain.DataLoader(Tiles(), shuffle=True, seed=7, config=config, fit=[uri])
mean, tiles, proof, batches = 0.0, 0, 0, 0
if os.path.exists(state):
    mean, tiles, proof, place = json.loads(Path(state).read_text())
    loader.load_state_dict(place)
    print(f"goes on in epoch {loader.epoch}, {loader.left} batches before its end")

with loader:
    for epoch in range(loader.epoch, 3):
        for batch in loader:
            with batch:
                values, tags = batch.numpy(), batch.info.tags
            tiles, batches = tiles + len(tags), batches + 1
            mean += (float(values.mean()) - mean) * len(tags) / tiles
            for place, tag in zip(loader.places, tags):  # proves which tiles came, and where
                proof = (proof + mix(place.position, tag)) % 2**64
            Path(state + ".new").write_text(json.dumps([mean, tiles, proof, loader.state_dict()]))
            os.replace(state + ".new", state)
            if limit and batches == int(limit[0]):
                sys.exit(f"killed in epoch {epoch}, after {tiles} tiles")
        print(f"epoch {epoch}: {tiles} tiles so far, mean {mean:.3f}, proof {proof:016x}")
