"""Batches of images of several shapes and their labels, from an iterator in Python."""

import numpy

import wavetrain
from wavetrain import Field
from wavetrain.source import Source

SHAPES = [(48, 64), (64, 48), (32, 32)]  # stands for a folder of pictures


class Pictures:
    """Gives a list of images, of 8 bits and three channels, and an array of labels at a time."""

    def __init__(self, batches: int, samples_per_batch: int) -> None:
        self.batches, self.samples = batches, samples_per_batch

    def __iter__(self):
        random = numpy.random.default_rng(0)
        for _ in range(self.batches):
            labels = random.integers(0, len(SHAPES), self.samples)
            yield [random.integers(0, 256, (*SHAPES[n], 3), "u1") for n in labels], labels


config = wavetrain.Config(
    samples_per_batch=4,
    fields=[Field("image", (64, 64, 3), "f32"), Field("label", (), "i64")],
    backend="host",
)
with Source(Pictures(5, 4), config, cycle="raise", layout=["HWC"]) as batches:
    for epoch in range(2):
        for batch in batches:
            with batch:
                images, labels = batch["image"].numpy(), batch["label"].numpy()
                shapes = [tuple(each) for each in batch["image"].filled_shape[:, :2].tolist()]
                assert shapes == [SHAPES[label] for label in labels]
                print(f"epoch {epoch}: images of {shapes}, mean {images.mean():.1f}")
