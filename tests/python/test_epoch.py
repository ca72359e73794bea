"""wavetrain.epoch: what its sentences say, and the numbers of wavetrain_epoch.h."""

from __future__ import annotations

import doctest
import itertools
import random
import shutil
import subprocess

import epoch_answers
import pytest
from cubes import ROOT

from wavetrain import _grids, _orders, epoch


@pytest.mark.parametrize(("module", "least"), [(epoch, 12), (_orders, 14), (_grids, 7)])
def test_the_doctests(module, least):
    result = doctest.testmod(module)
    assert result.attempted >= least and not result.failed


# ---- The same numbers as C ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def in_c(tmp_path_factory):
    """Answers of tests/c/epoch.c to a list of questions."""
    source, compiler = ROOT / "tests" / "c" / "epoch.c", shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    program = tmp_path_factory.mktemp("epoch") / "epoch"
    command = [compiler, "-std=c99", "-O1", "-I", ROOT / "include", source, "-o", program]
    subprocess.run(command, check=True)

    def ask(questions):
        text = "".join(f"{question}\n" for question in questions)
        ran = subprocess.run([program], input=text, capture_output=True, text=True, check=True)
        return ran.stdout.splitlines()

    return ask


class Dice(random.Random):
    def wide(self, most):
        """A number of 0 to most, of any size, the ends among them."""
        if self.random() < 0.1:
            return self.choice([0, most, most // 2])
        return self.randrange(min(most, 1 << self.randrange(64)) + 1)

    def several(self, low, high, make):
        return [make() for _ in range(self.randint(low, high))]

    def grid(self, high=3):
        rank = self.randint(0, high)
        shape, box, step, margin, chunk = [], [], [], [], []
        for _ in range(rank):
            shape.append(self.randint(1, 12))
            box.append(self.randint(1, 8))
            step.append(self.randint(0, 7))
            margin.append(self.randrange(box[-1]))
            chunk.append(self.randint(0, 9))
        return [rank, self.randint(0, 1), *shape, *box, *step, *margin, *chunk]

    def question(self, word):
        u64, wide, low = 2**64 - 1, self.wide, self.randrange
        seed, number = wide(u64), wide(2**40)
        n = self.choice([low(200), low(1, 5000), 1 + wide(2**62 - 1)])
        if word in ("mix", "high", "key"):
            return [wide(u64) for _ in range(3 if word == "key" else 2)]
        if word == "philox":
            return [wide(u64), *[wide(2**32 - 1) for _ in range(4)]]
        if word == "below":
            return [wide(u64), wide(u64), wide(u64), wide(2**32 - 1), 9]
        if word == "permute":
            return [n, wide(u64), wide(n), 9]
        if word in ("deal", "free"):
            n = low(120)
            world = self.choice([1, 2, 3, 7])
            flags = self.choice([0, 1]) | self.choice([0, 4, 8] + ([16] if word == "deal" else []))
            flags |= self.choice([0, 2]) if word == "deal" else 0
            more = [self.randint(1, 9)] if word == "deal" else [*self.visits()]
            return [n, seed, flags, low(world), world, *more, number, low(n + 1), 40]
        if word == "at":
            return [n, seed, low(2), *self.choice([(0, 0), self.visits()]), number, wide(n), 9]
        if word == "depends":
            return [n, seed, low(2), *self.several(0, 9, lambda: wide(2**62))]
        if word == "resume":
            other = [low(9, 12), low(2), low(2), low(14)]
            return [low(9, 12), low(2), low(2), *other]
        if word == "parts":
            weights = self.several(0, 6, lambda: wide(2**29))
            return [n, len(weights), *weights]
        labels = [low(5) for _ in range(low(40))]
        if word == "group":
            return [self.randint(4, 6), *labels]
        if word == "stratify":
            weights = self.several(1, 5, lambda: low(4))
            return [seed, low(len(weights)), len(weights), *weights, 5, *labels]
        where = [seed, number, wide(2**61), 7]
        if word == "weighted":
            return [*where, *self.several(1, 9, lambda: wide(self.choice([9, u64 // 8])))]
        if word == "mixed":
            return [*where, *itertools.chain(*self.several(1, 5, lambda: (low(90), low(9))))]
        grid = self.grid()
        if word == "boxes":
            return [seed, number, low(30), 9, *grid]
        if word == "anywhere":
            return [*where, *grid]
        if word == "around":
            shape = grid[2 : 2 + grid[0]]
            return [*where, *grid, *[low(extent + (low(30) == 0)) for extent in shape]]
        grids = [self.grid(2) for _ in range(self.randint(1, 3))]
        if word == "arrays":
            return [low(60), len(grids), *itertools.chain(*grids)]
        return [seed, number, *self.visits(), 65536, len(grids), *itertools.chain(*grids)]

    def visits(self):
        return [self.choice([1, 2, 3, 8, 30]), self.choice([1, 2, 5, 2**64 - 1])]


@pytest.mark.parametrize("word", [*epoch_answers.ANSWERS])
def test_numbers_are_those_of_c(word, in_c):
    dice = Dice(f"questions of {word}")
    questions = []
    for _ in range(400):
        questions.append(" ".join(map(str, [word, *dice.question(word)])))
    answers = in_c(questions)
    assert len(answers) == len(questions)
    for question, expected in zip(questions, answers):
        assert epoch_answers.answer(question) == expected, question
