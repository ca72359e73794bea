"""The training loop of netcl.data's users: shuffled batches of images and labels in .npy files.

    python3 netcl_loop.py FOLDER

FOLDER has images.npy, [samples, 3, 32, 32] of 8 bits, and labels.npy, numbers below 10. What a
DataLoader would do in worker processes, random_crop and horizontal_flip included, threads of the
library do as they read: only the boxes. What is learnt is a linear model, in numpy.
"""

import sys

import numpy

import wavetrain
from wavetrain import Column, Field

images, labels = f"{sys.argv[1]}/images.npy", f"{sys.argv[1]}/labels.npy"
count = wavetrain.array_info(images).shape[0]
mean = 255 * numpy.array([0.4914, 0.4822, 0.4465], "f4").reshape(3, 1, 1)
deviation = 255 * numpy.array([0.2023, 0.1994, 0.2010], "f4").reshape(3, 1, 1)
config = wavetrain.Config(
    samples_per_batch=128,  # batch_size
    drop_last=False,
    n_decode_threads=2,  # num_workers
    n_batch_slots=4,  # prefetch
    fields=[Field("x", (3, 32, 32), "f32", pad_mode="reflect"), Field("y", (), "i64")],
)


def boxes(dice: numpy.random.Generator):
    """Those of all images, in another order each time: shuffle=True."""
    n, full = dice.permutation(count), numpy.zeros(count, "i8")
    # random_crop(padding=4, crop_size=32, pad_mode="reflect")
    yx = dice.integers(-4, 5, (count, 2))
    flip = dice.choice([-1, 1], count)  # horizontal_flip(p=0.5)
    begins = numpy.column_stack([n, full, yx])
    steps = numpy.column_stack([full + 1, full + 1, full + 1, flip])
    return {"x": Column(images, begins, (1, 3, 32, 32), step=steps), "y": Column(labels, n, 1)}


dice = numpy.random.default_rng(0)  # seed
weights = numpy.zeros((3 * 32 * 32, 10), "f4")
losses = list[float]()
with wavetrain.Pipeline(config, fit=[images, labels]) as pipeline:
    for epoch in range(5):
        pipeline.push_boxes(boxes(dice))
        for batch in pipeline.batches():
            with batch:
                x, y = (batch["x"].numpy() - mean) / deviation, batch["y"].numpy().copy()
            x = x.reshape(len(y), -1)
            chances = numpy.exp(x @ weights - (x @ weights).max(1, keepdims=True))
            chances /= chances.sum(1, keepdims=True)
            losses.append(-numpy.log(chances[range(len(y)), y]).mean())
            chances[range(len(y)), y] -= 1
            weights -= 2e-3 * x.T @ chances / len(y)
        print(f"epoch {epoch}: {len(losses)} batches so far, the last with loss {losses[-1]:.3f}")
