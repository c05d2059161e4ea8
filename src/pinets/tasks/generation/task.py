"""The adversarial task: a generator, a discriminator, and the moving average of the generator that is sampled from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from pinets.data.batches import keyed_generator
from pinets.engine.optimization import require_range
from pinets.engine.randomness import restore_torch_random_state, seeded, torch_random_state
from pinets.engine.task import Split, Task, update
from pinets.tasks.generation.losses import AdversarialLoss

if TYPE_CHECKING:
    from accelerate import Accelerator

__all__ = ["EVALUATION_SEED", "Generation", "Noise", "Sampler", "to_pixels"]

Noise = Callable[[int], Tensor]  # from a number to that many noise vectors
Sampler = Callable[[int], Tensor]  # from a number to that many images, uint8 (N, C, H, W)

_PICTURE_SEED = 0  # all pictures of a run show the same noise
EVALUATION_SEED = 1  # seed of the images that are measured
_PICTURES = 64
_SAMPLE_BATCH = 256  # images generated at a time; only memory depends on it


class Generation(Task):
    """Train a generator against a discriminator.

    A step is several updates of the discriminator, each with its own part of the batch, and one of the generator.
    Evaluation and pictures use the moving average of the generator, in evaluation mode. The optimizers are named
    ``"generator"`` and ``"discriminator"``; a batch holds the real images of a whole step, with values in [-1, 1].

    All processes draw the noise of the whole batch, and each takes its part: several do what one would. Three things
    are beyond that: random numbers that networks draw themselves, batch norms, which see a process's part alone, and
    with several updates of the discriminator, which images go into which of them.

    Args:
        generator: From noise to images with values in [-1, 1].
        discriminator: From images to one score each.
        loss: The loss of both networks.
        noise: Draws the noise, from torch's global generator.
        evaluate: Given a sampler and the split, the metrics; must give the same on every process.
        accelerator: Made by :func:`~pinets.engine.loop.make_accelerator`.
        discriminator_steps: Updates of the discriminator for one of the generator.
        generator_batch: Images in an update of the generator, on this process.
        average: How much of the moving average a step keeps.
        seed: Seed of the noise for training.
        protocols: How a split was measured, which ``evaluate`` fills in.
    """

    def __init__(
        self,
        generator: nn.Module,
        discriminator: nn.Module,
        *,
        loss: AdversarialLoss,
        noise: Noise,
        evaluate: Callable[[Sampler, Split], dict[str, float]],
        accelerator: Accelerator,
        discriminator_steps: int = 1,
        generator_batch: int = 64,
        average: float = 0.999,
        seed: int = 0,
        protocols: Mapping[Split, str] | None = None,
    ) -> None:
        require_range("average", average, at_least=0, below=1)
        require_range("discriminator_steps", discriminator_steps, at_least=1)
        require_range("generator_batch", generator_batch, at_least=1)
        self._average = AveragedModel(generator, multi_avg_fn=get_ema_multi_avg_fn(average)).to(accelerator.device)
        self._average.requires_grad_(False)
        self.generator, self.discriminator = accelerator.prepare(generator, discriminator)
        self.model: nn.Module = self._average.module  # the moving average, which is sampled and saved
        self.networks = {"model": self.model, "generator": self.generator, "discriminator": self.discriminator}
        self.protocols = {} if protocols is None else protocols
        self._loss, self._noise, self._evaluate = loss, noise, evaluate
        self._accelerator = accelerator
        self._discriminator_steps, self._generator_batch = discriminator_steps, generator_batch
        with seeded(keyed_generator(seed, "noise").initial_seed(), accelerator.device):
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
        with torch.no_grad():  # unwrapped: without an update there is nothing to synchronise
            fake = self._accelerator.unwrap_model(self.generator)(self._share_of_noise(len(real)))
        return self._update("discriminator", self._loss.discriminator(self.discriminator, real, fake))

    def _update_generator(self) -> Tensor:
        fake = self.generator(self._share_of_noise(self._generator_batch))
        with _frozen(self._accelerator.unwrap_model(self.discriminator)) as discriminator:
            return self._update("generator", self._loss.generator(discriminator(fake)))

    def _share_of_noise(self, count: int) -> Tensor:
        """The part of this process in the noise that all processes draw, from a random state kept for it."""
        device, first = self._accelerator.device, self._accelerator.process_index * count
        with torch.random.fork_rng([] if device.type == "cpu" else [device], device_type=device.type):
            restore_torch_random_state(self._noise_state, device)
            noise = self._noise(count * self._accelerator.num_processes)
            self._noise_state = torch_random_state(device)
        return noise[first : first + count]

    def _update(self, name: str, loss: Tensor) -> Tensor:
        return update(loss, self.networks[name], self.optimizers[name], self._accelerator)

    def evaluate(self, split: Split) -> dict[str, float]:
        with seeded(EVALUATION_SEED, self._accelerator.device):
            return self._evaluate(self._sample, split)

    def state_dict(self) -> dict[str, Any]:
        return {"averaged": int(self._average.n_averaged), "noise": self._noise_state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._average.n_averaged.fill_(state["averaged"])
        self._noise_state = state["noise"]

    def pictures(self) -> dict[str, Tensor]:
        """Images of one fixed noise, to watch training."""
        with seeded(_PICTURE_SEED, self._accelerator.device):
            return {"samples": self._sample(_PICTURES)}

    @torch.no_grad()
    def _sample(self, count: int) -> Tensor:
        self.model.eval()
        parts = [_SAMPLE_BATCH] * (count // _SAMPLE_BATCH) + [count % _SAMPLE_BATCH]
        return torch.cat([to_pixels(self.model(self._noise(part))) for part in parts if part])


@contextmanager
def _frozen(network: nn.Module) -> Iterator[nn.Module]:
    """Let gradients pass through the network without computing those of its weights."""
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
