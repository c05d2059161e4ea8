"""The adversarial task: a generator, a discriminator, and the moving average of the generator that is sampled from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from pinets.data.batches import keyed_generator
from pinets.losses import AdversarialLoss
from pinets.train.randomness import restore_torch_random_state, torch_random_state
from pinets.train.schedules import Schedule
from pinets.train.task import Split, StatefulBatches, Task, update

if TYPE_CHECKING:
    from accelerate import Accelerator

__all__ = ["EVALUATION_SEED", "Generation", "Noise", "Sampler", "to_pixels"]

Noise = Callable[[int], Tensor]  # how many vectors, and the vectors
Sampler = Callable[[int], Tensor]  # how many images, and the images: uint8 (N, C, H, W)

_PICTURE_SEED = 0  # of the noise that is the same in all pictures of a run
EVALUATION_SEED = 1  # of the noise of the images that are measured
_PICTURES = 64
_SAMPLE_BATCH = 256  # images generated at a time; only memory depends on it


class Generation(Task):
    """Train a generator against a discriminator.

    A step is several updates of the discriminator, each with its own part of the batch, and one of the generator.
    Evaluation and pictures use the moving average of the generator, in evaluation mode.

    All processes draw the noise of the whole batch, and each takes its part: several do what one would. Three things
    are beyond that: random numbers that networks draw themselves, batch norms, which see a process's part alone, and
    with several updates of the discriminator, which images go into which of them.

    Args:
        generator: From noise to images with values in [-1, 1].
        discriminator: From images to one score each.
        optimizers: Of both, by the names ``"generator"`` and ``"discriminator"``.
        schedules: Of both optimisers.
        loss: Of both.
        noise: Draws the noise, from torch's global generator.
        batches: Training images with values in [-1, 1], this process's share; a batch is for a whole step.
        evaluate: Given a sampler and the split, the metrics; must give the same on every process.
        accelerator: Made by :func:`~pinets.train.loop.make_accelerator`.
        discriminator_steps: Updates of the discriminator for one of the generator.
        generator_batch: Images in an update of the generator, on this process.
        average: How much of the moving average a step keeps.
        seed: Of the noise for training.
        protocols: How a split was measured, which ``evaluate`` fills in.
    """

    def __init__(
        self,
        generator: nn.Module,
        discriminator: nn.Module,
        optimizers: dict[str, Optimizer],
        schedules: dict[str, Schedule],
        *,
        loss: AdversarialLoss,
        noise: Noise,
        batches: StatefulBatches,
        evaluate: Callable[[Sampler, Split], dict[str, float]],
        accelerator: Accelerator,
        discriminator_steps: int = 1,
        generator_batch: int = 64,
        average: float = 0.999,
        seed: int = 0,
        protocols: Mapping[Split, str] | None = None,
    ) -> None:
        if not 0 <= average < 1:
            raise ValueError(f"average must lie in [0, 1), got {average}")
        if discriminator_steps < 1 or generator_batch < 1:
            raise ValueError(
                f"discriminator_steps and generator_batch must be at least 1, got {discriminator_steps} and "
                f"{generator_batch}"
            )
        self._average = AveragedModel(generator, multi_avg_fn=get_ema_multi_avg_fn(average)).to(accelerator.device)
        self._average.requires_grad_(False)
        self.generator, self.discriminator, *prepared = accelerator.prepare(
            generator, discriminator, optimizers["generator"], optimizers["discriminator"]
        )
        self.model: nn.Module = self._average.module  # what is sampled from, and used later
        self.networks = {"model": self.model, "generator": self.generator, "discriminator": self.discriminator}
        self.optimizers = dict(zip(("generator", "discriminator"), prepared, strict=True))
        self.schedules = schedules
        self.batches = batches
        self.protocols = {} if protocols is None else protocols
        self._loss, self._noise, self._evaluate = loss, noise, evaluate
        self._accelerator = accelerator
        self._discriminator_steps, self._generator_batch = discriminator_steps, generator_batch
        with self._from_seed(keyed_generator(seed, "noise").initial_seed()):
            self._noise_state = torch_random_state(accelerator.device)

    def train_step(self, batch: Any) -> dict[str, Tensor]:
        images = batch[0] if isinstance(batch, tuple | list) else batch
        self.generator.train()
        self.discriminator.train()
        losses = [self._update_discriminator(real) for real in images.chunk(self._discriminator_steps)]
        generator_loss = self._update_generator()
        self._average.update_parameters(self._accelerator.unwrap_model(self.generator))
        return {"discriminator_loss": torch.stack(losses).mean(), "generator_loss": generator_loss}

    def _update_discriminator(self, real: Tensor) -> Tensor:
        real = real.to(self._accelerator.device, non_blocking=True)
        with torch.no_grad():  # the bare network: nothing of it is updated, so the processes need not meet
            fake = self._accelerator.unwrap_model(self.generator)(self._share_of_noise(len(real)))
        return self._update("discriminator", self._loss.discriminator(self.discriminator, real, fake))

    def _update_generator(self) -> Tensor:
        fake = self.generator(self._share_of_noise(self._generator_batch))
        with _frozen(self._accelerator.unwrap_model(self.discriminator)) as discriminator:
            return self._update("generator", self._loss.generator(discriminator(fake)))

    def _share_of_noise(self, count: int) -> Tensor:
        """The part of this process of what all of them draw, from random numbers of their own."""
        device, first = self._accelerator.device, self._accelerator.process_index * count
        with _fork(device):
            restore_torch_random_state(self._noise_state, device)
            noise = self._noise(count * self._accelerator.num_processes)
            self._noise_state = torch_random_state(device)
        return noise[first : first + count]

    def _update(self, name: str, loss: Tensor) -> Tensor:
        return update(loss, self.networks[name], self.optimizers[name], self._accelerator)

    def evaluate(self, split: Split) -> dict[str, float]:
        with self._from_seed(EVALUATION_SEED):
            return self._evaluate(self._sample, split)

    def state_dict(self) -> dict[str, Any]:
        return {"averaged": int(self._average.n_averaged), "noise": self._noise_state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._average.n_averaged.fill_(state["averaged"])
        self._noise_state = state["noise"]

    def pictures(self) -> dict[str, Tensor]:
        """Images of the same noise each time, to see how they come about."""
        with self._from_seed(_PICTURE_SEED):
            return {"samples": self._sample(_PICTURES)}

    @torch.no_grad()
    def _sample(self, count: int) -> Tensor:
        self.model.eval()
        parts = [_SAMPLE_BATCH] * (count // _SAMPLE_BATCH) + [count % _SAMPLE_BATCH]
        return torch.cat([to_pixels(self.model(self._noise(part))) for part in parts if part])

    @contextmanager
    def _from_seed(self, seed: int) -> Iterator[None]:
        """The same random numbers each time and on every process, and training goes on as if none had been drawn."""
        with _fork(self._accelerator.device):
            torch.manual_seed(seed)
            yield


def _fork(device: torch.device) -> AbstractContextManager[None]:
    """Whatever is drawn inside, torch's generators are where they were afterwards."""
    return torch.random.fork_rng([] if device.type == "cpu" else [device], device_type=device.type)


@contextmanager
def _frozen(network: nn.Module) -> Iterator[nn.Module]:
    """Gradients pass through the network, and none is computed for its weights."""
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    for parameter in trained:
        parameter.requires_grad_(False)
    try:
        yield network
    finally:
        for parameter in trained:
            parameter.requires_grad_(True)


def to_pixels(images: Tensor) -> Tensor:
    """Images with values in [-1, 1] as uint8 on the CPU.

    >>> to_pixels(torch.tensor([-1.0, 0.0, 1.0, 7.0]))
    tensor([  0, 128, 255, 255], dtype=torch.uint8)
    """
    return images.float().add(1).mul(127.5).round_().clamp_(0, 255).to(device="cpu", dtype=torch.uint8)
