"""Volumes and their labels, turned, zoomed and shifted alike.

    python3 affine_volume.py FOLDER

FOLDER gets image.zarr and label.zarr, 8 volumes of 48 x 48 x 48: three shells of a body, and noise
over the brightness of each. Two recipes of one name and one seed draw the same map: the image is
interpolated, the label takes the nearest voxel and stays exact. FOLDER/slices.png shows the middle
slice along each axis: above the images, below the labels, on the left the file, on the right the
batch.
"""

import sys

import numpy
import zarr
from pictures import write_png

import wavetrain
from wavetrain import Box, Field, Sample
from wavetrain.augment import random_affine

names, shape, dice = ("image", "label"), (1, 48, 48, 48), numpy.random.default_rng(0)
z, y, x = (numpy.indices(shape[1:]) - 24) / [[[[9]]], [[[14]]], [[[20]]]]
body = numpy.sum([z**2 + y**2 + x**2 < 1 / (1 + k) for k in range(3)], axis=0).astype("u1")
bodies = numpy.stack([body] * 8)
noisy = (bodies * 60 + dice.integers(0, 40, bodies.shape)).astype("u1")
for name, array in zip(names, (noisy, bodies)):
    zarr.create_array(f"{sys.argv[1]}/{name}.zarr", data=array, chunks=shape, overwrite=True)


class Volumes:
    """The boxes of an image and its label; nothing is read here."""

    def __len__(self):
        return 8

    def __getitem__(self, n):
        aabb = numpy.s_[n : n + 1, 0:48, 0:48, 0:48]
        return Sample(boxes=[Box(f"{sys.argv[1]}/{name}.zarr", aabb, name) for name in names])


map_of = {"degrees": (30, 10, 10), "zoom": (0.9, 1.3), "shift": 0.1, "name": "pose", "seed": 7}
image, label = random_affine(**map_of), random_affine(**map_of, filter="nearest")
config = wavetrain.Config(
    samples_per_batch=4, fields=[Field("image", shape, "f32"), Field("label", shape, "u8")]
)
alike = [image, lambda xb, yb: (xb, label(yb, None, loader.places)[0])]
with wavetrain.DataLoader(Volumes(), config=config, transforms=alike) as loader:
    images, labels = (numpy.concatenate(each) for each in zip(*loader))
for value in range(4):
    means = noisy[bodies == value].mean(), images[labels == value].mean()
    print("label {}: mean {:.1f} in the file, {:.1f} in the batches".format(value, *means))
panes = noisy[0], images[0, 0], 80 * bodies[0], 80 * labels[0, 0]
cuts = [numpy.hstack([pane.take(24, axis) for axis in range(3)]) for pane in panes]
write_png(f"{sys.argv[1]}/slices.png", numpy.block([cuts[:2], cuts[2:]]).astype("u1"))
