"""netcl's recipe for CIFAR-10, which threads of the library run while they read.

    python3 cifar_recipe.py FOLDER

FOLDER has images.npy, [samples, 3, 32, 32] of 8 bits, and labels.npy, whole numbers. The program
prints where each recipe runs, and writes FOLDER/recipe.png: in the upper row images as they lie in
the file, in the lower row the same ones as the first batch has them.
"""

import sys

import numpy
from pictures import write_png

import wavetrain
from wavetrain import Column, Field
from wavetrain.augment import default_cifar10_filters

images, labels = f"{sys.argv[1]}/images.npy", f"{sys.argv[1]}/labels.npy"
shape = (3, 32, 32)
config = wavetrain.Config(
    samples_per_batch=128, fields=[Field("x", shape, "f32"), Field("y", (), "i64")]
)


class Cifar:
    """The boxes of images and labels by number; nothing is read here."""

    def __len__(self):
        return wavetrain.array_info(images).shape[0]

    def boxes(self, indices):
        n = numpy.array(indices)
        begins = n[:, None] * [1, 0, 0, 0]
        return {"x": Column(images, begins, (1, *shape)), "y": Column(labels, n, 1)}


filters = default_cifar10_filters()  # random_crop, horizontal_flip, to_float, normalize
with wavetrain.DataLoader(
    Cifar(), config=config, shuffle=True, seed=0, transforms=filters
) as loader:
    print(loader.plan)
    for number, batch in enumerate(loader):
        with batch:
            if number == 0:  # a network would be trained here
                x, numbers = batch["x"].numpy()[:16].copy(), batch.info.tags[:16]
mean, std = (numpy.reshape(each, (3, 1, 1)) for each in (filters[-1].mean, filters[-1].std))
after = numpy.rint(255 * (x * std + mean)).astype("u1")
before = numpy.load(images, mmap_mode="r")[list(numbers)]
rows = [numpy.concatenate([*each], axis=2) for each in (before, after)]  # [3, 32, 16 * 32]
write_png(f"{sys.argv[1]}/recipe.png", numpy.concatenate(rows, axis=1).transpose(1, 2, 0))
