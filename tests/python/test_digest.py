"""Digests of samples, against the words of wavetrain.h in whole numbers of numpy."""

from __future__ import annotations

import numpy
from cubes import EDGE

from wavetrain import Box, Field, Sample

STEP, ROUND = numpy.uint64(0x9E3779B97F4A7C15), numpy.uint64(0xD6E8FEB86659FD93)
HALF = numpy.uint64(32)
ADD = numpy.add.reduce


def mix(position, digest):
    """Of arrays of uint64, modulo 2 ** 64 as those are."""
    x = numpy.asarray(digest, "u8") ^ (numpy.asarray(position, "u8") * STEP)
    for _ in range(2):
        x ^= x >> HALF
        x = x * ROUND
    return x ^ x >> HALF


def digest_of(sample):
    """The digest of an array."""
    data = numpy.ascontiguousarray(sample).tobytes()
    words = numpy.frombuffer(data + bytes(-len(data) % 8), "<u8")
    return mix([len(data)], [ADD(mix(numpy.arange(1, len(words) + 1), words), dtype="u8")])[0]


def is_right(batch, samples, position=0):
    """Whether a batch, or a field of one, has the digests of these arrays."""
    expected = numpy.array([digest_of(sample) for sample in samples], "u8")
    assert batch.digests.dtype == numpy.uint64
    assert batch.digests.tolist() == expected.tolist()
    positions = numpy.arange(position, position + len(expected))
    return batch.digest == int(ADD(mix(positions, expected), dtype="u8"))


def test_each_sample_has_the_digest_of_its_bytes_and_positions_go_on(cube, pipeline):
    stream = pipeline(digest=True, dtype="f32")
    stream.push(cube.samples(8))
    for number in range(2):
        with stream.pop() as batch:
            assert is_right(batch, batch.numpy(), 4 * number)
            assert numpy.array_equal(batch.numpy(), cube.holds(*range(4 * number, 4 * number + 4)))
    stream.push(cube.samples(8))
    stream.reset()
    stream.push(cube.samples(3))
    stream.flush()
    with stream.pop() as batch:
        assert len(batch.digests) == 3 and is_right(batch, batch.numpy())


def test_each_field_has_its_own_and_they_outlive_the_batch(cube, pipeline):
    image, label = Field("image", (EDGE,) * 3, "u16"), Field("label", (), "i64")
    fields = (image, label, Field("odd", (3,), "u8"))
    stream = pipeline(sample_shape=(), fields=fields, samples_per_batch=2, digest=True)
    box = [(0, EDGE)] * 3
    stream.push(Sample(boxes=[Box(cube, box, field="image")], tag=n) for n in range(2))
    with stream.pop() as batch:
        kept = batch["image"].digests
        for name in batch.fields:
            assert is_right(batch[name], batch[name].numpy())
        assert batch.digest == batch["image"].digest
    assert kept.tolist() == [digest_of(cube.data[:EDGE, :EDGE, :EDGE])] * 2


def test_without_the_flag_there_are_none(cube, pipeline):
    stream = pipeline()
    stream.push(cube.samples(4))
    with stream.pop() as batch:
        assert batch.digests is None and batch.digest == 0
        assert stream.stats().digest.count == 0


def test_the_flag_costs_memory_and_time_that_are_counted(cube, pipeline):
    stream = pipeline(digest=True)
    stream.push(cube.samples(4))
    with stream.pop() as batch:
        bytes_of_batch = batch.numpy().nbytes
    stats = stream.stats()
    assert stats.digest.name == "digest" and stats.digest.count > 0 and stats.digest.ms > 0
    assert (stats.digest.input_bytes, stats.digest.output_bytes) == (bytes_of_batch, 4 * 8)
    assert stats.host_bytes_committed > pipeline().stats().host_bytes_committed


def test_the_definition_gives_the_numbers_of_the_library_itself():
    assert int(mix([1], [0])[0]) == 0x4E17CF67001B3979
    ramp = numpy.arange(256, dtype="u1")
    assert int(digest_of(ramp)) == 0x58513AD1543B76F0
    assert int(digest_of(numpy.frombuffer(b"wavetrain", "u1"))) == 0x5132615E94C498FE
