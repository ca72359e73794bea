"""What the arrays of benches/data.py hold: painted by numpy, from a seed.

Each is about as hard to compress as what it stands for: photographs with edges and noise, stacks of a
microscope, voices with pauses, fields of a weather model, rain that is mostly none, segments with
curved borders.
"""

from collections.abc import Callable

import numcodecs
import numpy as np

Shape = tuple[int, ...]


def hat_weights(extent: int, knots: int) -> np.ndarray:
    """[extent, knots]: row i interpolates linearly between the two knots around place i."""
    places = np.linspace(0, knots - 1, extent)[:, None]
    return np.maximum(0, 1 - np.abs(places - np.arange(knots))).astype(np.float32)


def tissue(volume: str, shape: Shape, seed: int) -> np.ndarray:
    """A volume as a camera sees tissue: a smooth signal, shot noise, and a dark level."""
    dice = np.random.default_rng([seed, ord(volume)])
    knots = [max(2, extent // step) for extent, step in zip(shape, (10, 20, 20))]
    field = dice.random(knots, dtype=np.float32)
    if volume == "a":
        field, gain = 110 + 800 * field**3, 0.55
    else:
        field, gain = 4 + 480 * np.maximum(0, field - 0.86) / 0.14, 0.45
    z_weights, y_weights, x_weights = (hat_weights(e, k) for e, k in zip(shape, knots))
    voxels = np.empty(shape, np.uint16)
    for z in range(shape[0]):
        signal = y_weights @ np.tensordot(z_weights[z], field, 1) @ x_weights.T
        noise = dice.standard_normal(signal.shape, dtype=np.float32)
        voxels[z] = np.rint(100 + signal + gain * np.sqrt(signal) * noise).clip(0, 65535)
    return voxels


def octaves(dice: np.random.Generator, shape: tuple[int, int], knots: int, count: int) -> np.ndarray:
    """A plane in which features of every size have the strength that they have in nature."""
    plane = np.zeros(shape, np.float32)
    for octave in range(count):
        places = [min(extent, knots << octave) for extent in shape]
        weights = [hat_weights(extent, place) for extent, place in zip(shape, places)]
        grain = dice.standard_normal(places, dtype=np.float32) / 1.8**octave
        plane += weights[0] @ grain @ weights[1].T
    return plane


def photographs(seed: int) -> np.ndarray:
    """[64, 1024, 1024, 3] u8: light and colour that drift, things with borders; of the
    pictures a third without the noise of a sensor, as scans and renderings are."""
    found = np.empty((64, 1024, 1024, 3), np.uint8)
    y, x = np.mgrid[:1024, :1024].astype(np.float32)
    for number, image in enumerate(found):
        dice = np.random.default_rng([seed, number])
        light = octaves(dice, (1024, 1024), 3, 8)
        planes = [140 + 60 * light + 12 * octaves(dice, (1024, 1024), 2, 3) for _ in range(3)]
        for _ in range(dice.integers(4, 20)):
            (top, left), radius = dice.integers(0, 1024, 2), dice.integers(20, 240)
            lean = dice.uniform(-1, 1)
            inside = (y - top) ** 2 + (x - left + lean * (y - top)) ** 2 < radius**2
            for plane in planes:
                plane[inside] = dice.uniform(0, 255) + 0.4 * (plane[inside] - 120)
        noise = max(0, dice.uniform(-1.2, 2.4))
        for channel, plane in enumerate(planes):
            plane += noise * dice.standard_normal(plane.shape, dtype=np.float32)
            image[..., channel] = plane.clip(0, 255)
    return found


def stack(seed: int) -> np.ndarray:
    """[5, 2, 48, 512, 512] u16, TCZYX: a bright channel and a dark one."""
    shape = (48, 512, 512)
    times = [[tissue(volume, shape, seed + 100 * t) for volume in "ab"] for t in range(5)]
    return np.array(times)


def volume(seed: int) -> np.ndarray:
    """[96, 512, 512] u16, bright and noisy."""
    return tissue("a", (96, 512, 512), seed + 7)


def cube(seed: int) -> np.ndarray:
    """[512, 512, 512] u16, dark with few cells."""
    return tissue("b", (512, 512, 512), seed + 8)


def small_cube(seed: int) -> np.ndarray:
    """[160, 160, 160] u16, bright and noisy."""
    return tissue("a", (160, 160, 160), seed + 9)


def islands(seed: int) -> np.ndarray:
    """[256, 256, 256] u16: of blocks of 16^3 one in eight is not zero, at random places."""
    dice = np.random.default_rng([seed, 30])
    blocks = np.kron(dice.random((16, 16, 16)) < 1 / 8, np.ones((16, 16, 16), np.uint16))
    return blocks * dice.integers(1, 200, (256, 256, 256), np.uint16)


def pages(seed: int) -> np.ndarray:
    """[1024, 256, 256] u16: noise of 9 bits."""
    return np.random.default_rng([seed, 31]).integers(0, 512, (1024, 256, 256), np.uint16)


def voice(dice: np.random.Generator, count: int) -> np.ndarray:
    """f32 in -1..1 at 16 kHz: harmonics of a gliding pitch, syllables, pauses, breath."""

    def glide(step: int, draw: Callable[[int], np.ndarray]) -> np.ndarray:
        knots = np.arange(0, count + step, step)
        return np.interp(np.arange(count), knots, draw(len(knots))).astype(np.float32)

    pitch = glide(3200, lambda n: dice.uniform(90, 260, n))
    phase = (np.cumsum(pitch, dtype=np.float64) * (2 * np.pi / 16000) % (2 * np.pi)).astype(np.float32)
    loudness = glide(2400, lambda n: np.maximum(0, dice.uniform(-0.5, 1, n)))
    wave = np.zeros(count, np.float32)
    for harmonic in range(1, 6):
        colour = glide(1600, lambda n: dice.uniform(0, 0.5 / harmonic, n))
        wave += colour * np.sin(harmonic * phase)
    breath = dice.standard_normal(count, dtype=np.float32)
    return loudness * wave * 0.6 + (0.0008 + 0.01 * loudness) * breath


def clips(seed: int) -> np.ndarray:
    """[160, 480000] i16: clips of half a minute."""
    found = np.empty((160, 480_000), np.int16)
    for number, clip in enumerate(found):
        wave = voice(np.random.default_rng([seed, 20, number]), clip.size)
        clip[:] = (30000 * wave).clip(-32768, 32767)
    return found


def recording(seed: int) -> np.ndarray:
    """[40000000] f32: one long recording."""
    parts = [voice(np.random.default_rng([seed, 21, n]), 2_500_000) for n in range(16)]
    return np.concatenate(parts)


def long_tape(seed: int) -> np.ndarray:
    """[40000000] i16."""
    return (20000 * recording(seed)).clip(-32768, 32767).astype(np.int16)


def rounded(values: np.ndarray, bits: int) -> np.ndarray:
    """Keeps so many bits of each mantissa, as numcodecs.BitRound does."""
    return numcodecs.BitRound(bits).encode(values).view(np.float32).reshape(values.shape)


WEATHER: Shape = (600, 181, 360)


def temperature(seed: int) -> np.ndarray:
    """f32 kelvin at [hour, latitude, longitude]: fronts that move, the turn of the day, no noise."""
    dice = np.random.default_rng([seed, 30])
    hours, rows, columns = WEATHER
    found = np.empty(WEATHER, np.float32)
    scales = [(48, 6, 10, 9.0), (18, 18, 36, 3.0), (6, 60, 120, 0.8)]
    fields = []
    for step, y, x, strength in scales:
        knots = dice.standard_normal((hours // step + 2, y, x), dtype=np.float32) * strength
        fields.append((step, knots, hat_weights(rows, y), hat_weights(columns, x).T))
    latitude = np.linspace(-90, 90, rows)[:, None]
    climate = 303 - 55 * (np.abs(latitude) / 90) ** 1.7
    turn = np.arange(columns) * (2 * np.pi / columns)
    for hour in range(hours):
        plane = climate + 4 * np.cos(np.radians(latitude)) * np.cos(turn + hour * np.pi / 12)
        for step, knots, left, right in fields:
            at, part = hour // step, hour % step / step
            plane += left @ ((1 - part) * knots[at] + part * knots[at + 1]) @ right
        found[hour] = plane
    return found


def rounded_temperature(seed: int) -> np.ndarray:
    return rounded(temperature(seed), 11)


def rain(seed: int) -> np.ndarray:
    """f32 metres per hour, rounded: none in most places."""
    return rounded(np.maximum(0, temperature(seed + 1) - 297) ** 1.5 * np.float32(1e-4), 8)


def segments(seed: int) -> np.ndarray:
    """[192, 384, 384] u32: cells of a grid that is bent, some joined, some empty."""
    dice = np.random.default_rng([seed, 40])
    shape, edge = (192, 384, 384), 21
    table = dice.integers(1, 2**31, [extent // edge + 8 for extent in shape], dtype=np.uint32)
    for axis in range(3):
        joined = dice.random(table.shape) < 0.25
        table[joined] = np.roll(table, 1, axis)[joined]
    table[dice.random(table.shape) < 0.3] = 0
    weights = [hat_weights(extent, extent // 24) for extent in shape]
    bends = 9 * dice.standard_normal((3, *(extent // 24 for extent in shape)), dtype=np.float32)
    places = [np.arange(extent, dtype=np.float32) for extent in shape]
    found = np.empty(shape, np.uint32)
    for z in range(shape[0]):
        cell = []
        for axis, bend in enumerate(bends):
            plane = weights[1] @ np.tensordot(weights[0][z], bend, 1) @ weights[2].T
            plane += (z, places[1][:, None], places[2])[axis]
            cell.append(((plane + 3 * edge) / edge).astype(np.int32).clip(0, table.shape[axis] - 1))
        found[z] = table[tuple(cell)]
    return found


def wide_segments(seed: int) -> np.ndarray:
    """The same as u64, with ids beyond 32 bits."""
    labels = segments(seed).astype(np.uint64)
    return np.where(labels == 0, labels, labels * 2**21 + 12345)


def words(seed: int) -> np.ndarray:
    """[800, 65536] u16, noise."""
    return np.random.default_rng(seed).integers(0, 1 << 16, (800, 65_536), np.uint16)


def grains(seed: int) -> np.ndarray:
    """[16, 16, 16] f32, noise."""
    return np.random.default_rng(seed).random((16, 16, 16), np.float32)


def pictures(seed: int) -> np.ndarray:
    """[20000, 3, 32, 32] u8, noise: as many pixels as a third of CIFAR has."""
    return np.random.default_rng(seed).integers(0, 256, (20_000, 3, 32, 32), np.uint8)
