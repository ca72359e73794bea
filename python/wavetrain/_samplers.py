"""Orders of samplers that are asked anew in each epoch, as those of torch.utils.data are.

In: an iterable of the numbers of samples, or of batches of them. Out: an `Epoch` of the samples
that it gave. The sampler is asked once in an epoch, when an iteration begins, and never before.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sized
from typing import Any, cast

from wavetrain._border import short
from wavetrain._orders import Subset
from wavetrain.epoch import Epoch, State, named_of

UNSIZED_MAX = 1 << 24  # items of a sampler without len(): an endless one ends here


class Resampled(Epoch):
    """The samples of an epoch, in the order of a sampler that is asked anew in each.

    Until the sampler is asked, an epoch is one of no samples, and a place of it its front. A place
    after that front has the hash of the samples: the sampler must give the same again."""

    def __init__(self, sampler: Any, count: int, *, by_batch: bool, batch: int, tail: str) -> None:
        self.count, self.gives_batches = count, by_batch
        self.sampler: Any = sampler
        self.name = "batch_sampler" if by_batch else "sampler"
        self.is_asked = False
        self.seen_epoch = getattr(sampler, "epoch", None)  # the sampler's own number
        super().__init__(Subset(()), batch=batch, tail=tail)
        self.front_hash = self.order_hash

    def __repr__(self) -> str:
        known = f"{self.position} of {self.n}" if self.is_asked else "the front"
        return f"<Epoch of {type(self.sampler).__name__}, at {known} in epoch {self.epoch}>"

    def begin(self, epoch: int) -> None:
        """Moves to the front of an epoch, which is of no samples until `ask_sampler`."""
        self._hold(Subset(()))
        super().begin(epoch)
        self.is_asked = False

    def turn(self) -> None:
        self.begin(self.epoch + 1)

    def _hold(self, samples: Subset) -> None:
        self.samples, self.n = samples, len(samples)
        self._begun()

    def ask_sampler(self) -> None:
        """Takes the samples of this epoch, if that was not done."""
        if self.is_asked:
            return
        epoch = self.epoch
        self._set_epoch(epoch)
        self._hold(self._asked())
        super().begin(epoch)
        self.is_asked = True

    def _set_epoch(self, epoch: int) -> None:
        """Gives a sampler with set_epoch(epoch) the number of this one. A number that the program
        itself set there must be the same."""
        if not callable(getattr(self.sampler, "set_epoch", None)):
            return
        own = getattr(self.sampler, "epoch", None)
        if own not in (self.seen_epoch, epoch):
            raise ValueError(
                f"{self.name}.epoch was set to {own}, and this DataLoader begins epoch {epoch}: "
                f"call set_epoch({own}) of the DataLoader, which sets that of the {self.name} too"
            )
        self.sampler.set_epoch(epoch)
        self.seen_epoch = getattr(self.sampler, "epoch", None)

    def _asked(self) -> Subset:
        items = self._items()
        if self.gives_batches:
            items = [*itertools.chain.from_iterable(whole_batches(items, self.batch))]
        elif items and isinstance(items[0], (list, tuple)):
            raise TypeError(
                "sampler must give a number for each sample: one that gives lists of them, as "
                f"BatchSampler does, is a batch_sampler (got {short(items[0])})"
            )
        samples = subset_of(self.name, items)
        check_reach(self.name, samples.reach, self.count)
        return samples

    def _items(self) -> list[Any]:
        """The items of the sampler. More of them than its len() are an error."""
        sized = isinstance(self.sampler, Sized)
        most = len(self.sampler) if sized else UNSIZED_MAX
        items = list[Any](itertools.islice(self.sampler, most + 1))
        if len(items) <= most:
            return items
        if not sized:
            raise ValueError(
                f"{self.name} gives more than {most} items and has no len(): an epoch must end, "
                f"so give one that has len({self.name})"
            )
        raise ValueError(
            f"{self.name} gives more than len({self.name}), which is {most}: its __len__ must "
            "return as many as it gives"
        )

    @property
    def left(self) -> int:
        """Samples that are left. Before the sampler is asked, by its len(): those of whole batches
        if it is a batch_sampler."""
        if self.is_asked:
            return super().left
        if not isinstance(self.sampler, Sized):
            raise TypeError(
                f"the length of this DataLoader is not known: {type(self.sampler).__name__}, the "
                f"{self.name}, has no len()"
            )
        return len(self.sampler) * (self.batch if self.gives_batches else 1)

    def resume(self, state: State | Mapping[str, int] | bytes) -> None:
        """Continues at a checkpoint. Inside of an epoch the sampler is asked, and must give what it
        gave before."""
        named, other = named_of(state), cast("Resampled", self.copy())
        is_front = named["position"] == 0 and named["order_hash"] == self.front_hash
        same = self.is_asked and named["order_hash"] == self.order_hash
        if not same or named["epoch"] != self.epoch:
            other.begin(named["epoch"])
        if not is_front:
            other.ask_sampler()
            if other.order_hash != named["order_hash"]:
                raise ValueError(
                    f"the {self.name} gives other samples in epoch {named['epoch']} than before "
                    "this checkpoint was taken: give one that gives the same for an epoch, such as "
                    "DistributedSampler, restore its generator, or leave it out for shuffle=True"
                )
            Epoch.resume(other, state)
        self.__dict__.update(other.__dict__)


def whole_batches(batches: list[Any], size: int) -> Iterator[list[Any]]:
    """The batches, each of `size` samples, and the last one of as many or fewer."""
    for number, batch in enumerate(batches):
        if not isinstance(batch, Iterable) or isinstance(batch, (str, bytes)):
            raise TypeError(
                "batch_sampler must give a list of numbers for each batch: one that gives a number "
                f"for each sample is a sampler (got {short(batch)})"
            )
        items = list(cast("Iterable[Any]", batch))
        is_last = number == len(batches) - 1
        if not 1 <= len(items) <= size or (len(items) < size and not is_last):
            raise ValueError(
                f"batch_sampler gives {len(items)} samples in batch {number}, and {size} are a "
                "batch here: only the last may be smaller, so give batches of one size"
            )
        yield items


def subset_of(name: str, numbers: Iterable[Any]) -> Subset:
    """The samples of these numbers, in the words of the argument that has them."""
    try:
        return Subset(numbers)
    except (TypeError, ValueError) as error:
        raise type(error)(str(error).replace("indices", name, 1)) from None


def check_reach(name: str, reach: int, count: int) -> None:
    """The data set has all samples of an order."""
    if reach > count:
        raise ValueError(f"{name} has sample {reach - 1}, and the data set {count} of them")


def is_for_epochs(sampler: Any) -> bool:
    """Whether it can be iterated in each epoch, and gives an order."""
    is_once = isinstance(sampler, (Iterator, set, frozenset, str, bytes))
    return isinstance(sampler, Iterable) and not is_once


def resampled(
    sampler: Any, count: int, size: int | None, given: dict[str, Any], *, by_batch: bool
) -> Resampled:
    """The order of a sampler, with what else a loader was given of its order."""
    name, given = "batch_sampler" if by_batch else "sampler", {**given}
    if given.pop("world", 1) != 1 or given.pop("rank", 0) != 0:
        raise ValueError(
            f"world must be 1 with a {name} that is asked anew in each epoch, as each rank asks "
            "its own: give DistributedSampler(dataset, num_replicas, rank), or a list, which "
            "wavetrain deals to the ranks"
        )
    if given.pop("shuffle", False):
        raise ValueError(
            f"shuffle must be False with a {name} that is asked anew in each epoch: it has the "
            "order of its own"
        )
    if "seed" in given:
        raise ValueError(
            f"seed and a {name} that is asked anew are both given: seed the generator of the {name}"
        )
    if given["tail"] == "repeat":
        raise ValueError(
            f"tail must not be 'repeat' with a {name} that is asked anew in each epoch: iterate "
            "once more for the next epoch"
        )
    return Resampled(sampler, count, by_batch=by_batch, batch=size or 1, tail=given["tail"])
