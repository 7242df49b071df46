"""The models that are compared, of the same sizes and behind the same few calls."""

from __future__ import annotations

import importlib
import math
import os
from typing import NamedTuple

import torch
from torch import Tensor, nn

import d2l_mini as d2l
from benchmarks.runner import Unavailable

__all__ = ["NAMES", "SMALL", "WIDE", "Contender", "Sizes", "check_alike", "load", "make_contenders"]

NAMES = ("d2l_mini", "torch.nn", "x-transformers", "transformers")


class Sizes(NamedTuple):
    """As the arguments of `TransformerEncoder`."""

    num_hiddens: int
    ffn_num_hiddens: int
    num_heads: int
    num_layers: int
    dropout: float


SMALL = Sizes(32, 64, 4, 2, 0.1)
WIDE = Sizes(256, 1024, 4, 2, 0.1)


def load(name: str):
    """Import a peer's package; raise Unavailable where it is not installed."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing here needs the network
    try:
        return importlib.import_module(name)
    except ImportError:
        raise Unavailable(
            f"{name.replace('_', '-')} is not installed: pip install -r benchmarks/requirements.txt"
        ) from None


class Contender(nn.Module):
    """A translator. Its training is `train_step` for all, so only the model makes a difference."""

    eos: int | None
    has_cache = True

    def encode(self, enc_X: Tensor, enc_valid_lens: Tensor) -> Tensor:
        """Token ids (batch, source) -> (batch, source, hiddens)."""
        raise NotImplementedError

    def decode(self, memory: Tensor, enc_valid_lens: Tensor, dec_X: Tensor) -> Tensor:
        """Token ids (batch, target) -> logits (batch, target, vocab), all steps anew."""
        raise NotImplementedError

    def forward(self, enc_X: Tensor, dec_X: Tensor, enc_valid_lens: Tensor) -> tuple[Tensor, None]:
        """As `EncoderDecoder.forward`."""
        return self.decode(self.encode(enc_X, enc_valid_lens), enc_valid_lens, dec_X), None

    def search(
        self, enc_X: Tensor, enc_valid_lens: Tensor, num_steps: int, beam_size: int, cached: bool
    ) -> Tensor:
        """Translate a batch: token ids (batch, steps); beam_size 1 = greedily.

        cached  whether a step is fed its own token only, or the whole prefix again

        Raises Unavailable where the package has no such way.
        """
        if cached:
            raise Unavailable("it has no cache")
        return recompute(self, enc_X, enc_valid_lens, num_steps, beam_size)

    def never_end(self) -> None:
        """Write no <eos>: then all contenders take as many steps, whatever their weights."""
        raise NotImplementedError


def recompute(
    net: Contender, enc_X: Tensor, enc_valid_lens: Tensor, num_steps: int, beam_size: int
) -> Tensor:
    """Search by feeding every step the whole prefix again: what one writes without a cache."""
    batch, eos = len(enc_X), net.eos
    rows = torch.arange(batch, device=enc_X.device).repeat_interleave(beam_size)
    memory, lens = net.encode(enc_X, enc_valid_lens)[rows], enc_valid_lens[rows]
    tokens = enc_X.new_full((len(rows), 1), BOS)
    scores = torch.full((batch, beam_size), -torch.inf, device=enc_X.device)
    scores[:, 0] = 0
    beams = d2l.Beams(scores, torch.zeros_like(scores), torch.zeros_like(scores, dtype=torch.bool))
    first_row = torch.arange(batch, device=enc_X.device)[:, None] * beam_size
    for _ in range(num_steps):
        log_probs = torch.log_softmax(net.decode(memory, lens, tokens)[:, -1].float(), dim=-1)
        log_probs[:, [PAD, BOS]] = -torch.inf
        if beam_size == 1:
            ended = beams.finished
            token = log_probs.argmax(dim=-1, keepdim=True).masked_fill(ended, EOS)
            beams = beams._replace(finished=ended | (token == eos))
        else:
            log_probs = log_probs.unflatten(0, (batch, beam_size))
            beams, beam, token = d2l.beam_step(beams, log_probs, EOS, length_penalty=0.75)
            tokens = tokens[(first_row + beam).flatten()]
        tokens = torch.cat([tokens, token.reshape(-1, 1)], dim=1)
        if beams.finished.all():
            break
    if beam_size == 1:
        return tokens[:, 1:]
    best = beams.ranks(0.75).argmax(dim=1, keepdim=True)
    return tokens[(first_row + best).squeeze(1), 1:]


PAD, BOS, EOS = 1, 2, 3  # the ids that `build_data_nmt` gives them


class Own(Contender):
    """This package."""

    def __init__(self, num_src: int, num_tgt: int, sizes: Sizes):
        super().__init__()
        self.eos = EOS
        self.net = d2l.EncoderDecoder(
            d2l.TransformerEncoder(num_src, *sizes), d2l.TransformerDecoder(num_tgt, *sizes)
        )

    def forward(self, enc_X, dec_X, enc_valid_lens):
        """As `EncoderDecoder.forward`."""
        return self.net(enc_X, dec_X, enc_valid_lens)

    def encode(self, enc_X, enc_valid_lens):
        """As `Contender.encode`."""
        return self.net.encoder(enc_X, enc_valid_lens)

    def decode(self, memory, enc_valid_lens, dec_X):
        """As `Contender.decode`."""
        decoder = self.net.decoder
        return decoder(dec_X, decoder.init_state(memory, enc_valid_lens))[0]

    def search(self, enc_X, enc_valid_lens, num_steps, beam_size, cached):
        """As `Contender.search`."""
        with d2l.keep_attention_weights(self.net, False):
            if not cached:
                return recompute(self, enc_X, enc_valid_lens, num_steps, beam_size)
            inputs = self.net, enc_X, enc_valid_lens, IDS, num_steps
            if beam_size == 1:
                return d2l.greedy_search(*inputs)[0]
            return d2l.beam_search(*inputs, beam_size)[0]

    def never_end(self):
        """As `Contender.never_end`."""
        self.net.decoder.dense.bias.data[EOS] = -1e4


IDS = d2l.Vocab(reserved_tokens=["<pad>", "<bos>", "<eos>"])  # all that a search asks of one


class TorchNN(Contender):
    """`torch.nn.Transformer` between two embeddings and a linear layer, with the weights of ours.

    Its heads have biases, which begin at 0; its two last norms, which ours lacks, are left out.
    """

    has_cache = False

    def __init__(self, own: Own):
        super().__init__()
        self.eos = EOS
        encoder, decoder = own.net.encoder, own.net.decoder
        num_src, width, ffn, heads, layers, dropout = encoder.sizes
        num_tgt = decoder.sizes[0]
        self.src_embedding = nn.Embedding(num_src, width)
        self.tgt_embedding = nn.Embedding(num_tgt, width)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("positions", encoder.pos_encoding.P.clone(), persistent=False)
        sizes = {"dim_feedforward": ffn, "dropout": dropout, "batch_first": True}
        self.transformer = nn.Transformer(
            width,
            heads,
            custom_encoder=nn.TransformerEncoder(
                nn.TransformerEncoderLayer(width, heads, **sizes),
                layers,
                enable_nested_tensor=False,
            ),
            custom_decoder=nn.TransformerDecoder(
                nn.TransformerDecoderLayer(width, heads, **sizes), layers
            ),
            batch_first=True,
        )
        self.dense = nn.Linear(width, num_tgt)
        self.src_embedding.load_state_dict(encoder.embedding.state_dict())
        self.tgt_embedding.load_state_dict(decoder.embedding.state_dict())
        self.dense.load_state_dict(decoder.dense.state_dict())
        for ours, theirs in zip(encoder.blks, self.transformer.encoder.layers, strict=True):
            copy_block(ours, theirs, {"self_attn": "attention"})
        names = {"self_attn": "attention1", "multihead_attn": "attention2"}
        for ours, theirs in zip(decoder.blks, self.transformer.decoder.layers, strict=True):
            copy_block(ours, theirs, names)

    def embed(self, embedding: nn.Embedding, X: Tensor) -> Tensor:
        """Token ids (batch, steps) -> (batch, steps, hiddens)."""
        scaled = embedding(X) * math.sqrt(embedding.embedding_dim)
        return self.dropout(scaled + self.positions[: X.shape[1]])

    def encode(self, enc_X, enc_valid_lens):
        """As `Contender.encode`."""
        return self.transformer.encoder(
            self.embed(self.src_embedding, enc_X),
            src_key_padding_mask=~keep(enc_valid_lens, enc_X.shape[1]),
        )

    def decode(self, memory, enc_valid_lens, dec_X):
        """As `Contender.decode`."""
        steps = dec_X.shape[1]
        later = torch.ones(steps, steps, dtype=torch.bool, device=dec_X.device).triu(1)
        hiddens = self.transformer.decoder(
            self.embed(self.tgt_embedding, dec_X),
            memory,
            tgt_mask=later,
            tgt_is_causal=True,
            memory_key_padding_mask=~keep(enc_valid_lens, memory.shape[1]),
        )
        return self.dense(hiddens)

    def never_end(self):
        """As `Contender.never_end`."""
        self.dense.bias.data[EOS] = -1e4


def keep(lens: Tensor, steps: int) -> Tensor:
    """Which steps are real: (batch, steps), bool."""
    return torch.arange(steps, device=lens.device) < lens[:, None]


@torch.no_grad()
def copy_attention(ours: d2l.MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
    """Give PyTorch's heads the weights of ours, and no bias."""
    projections = (ours.W_q.weight, ours.W_k.weight, ours.W_v.weight)
    theirs.in_proj_weight.copy_(torch.cat(projections))
    theirs.out_proj.weight.copy_(ours.W_o.weight)
    for bias in (theirs.in_proj_bias, theirs.out_proj.bias):
        if bias is not None:
            bias.zero_()


def copy_block(ours: nn.Module, theirs: nn.Module, attentions: dict[str, str]) -> None:
    """Give PyTorch's block the weights of ours."""
    for name, our_name in attentions.items():
        copy_attention(getattr(ours, our_name), getattr(theirs, name))
    for i in range(1, len(attentions) + 2):
        norm = getattr(ours, f"addnorm{i}").ln
        getattr(theirs, f"norm{i}").load_state_dict(norm.state_dict())
    theirs.linear1.load_state_dict(ours.ffn.dense1.state_dict())
    theirs.linear2.load_state_dict(ours.ffn.dense2.state_dict())


class XTransformers(Contender):
    """`XTransformer` of x-transformers, with its fused attention.

    It learns its positions, normalises before each sublayer, and has a GELU: its own defaults.
    """

    def __init__(self, num_src: int, num_tgt: int, sizes: Sizes, num_steps: int):
        super().__init__()
        self.eos = EOS
        half = {
            "depth": sizes.num_layers,
            "heads": sizes.num_heads,
            "max_seq_len": num_steps,
            "attn_dim_head": sizes.num_hiddens // sizes.num_heads,
            "attn_flash": True,
            "attn_dropout": sizes.dropout,
            "attn_sublayer_dropout": sizes.dropout,
            "ff_mult": sizes.ffn_num_hiddens // sizes.num_hiddens,
            "ff_dropout": sizes.dropout,
            "emb_dropout": sizes.dropout,
        }
        self.net = load("x_transformers").XTransformer(
            dim=sizes.num_hiddens,
            pad_value=PAD,
            enc_num_tokens=num_src,
            dec_num_tokens=num_tgt,
            **{f"enc_{name}": value for name, value in half.items()},
            **{f"dec_{name}": value for name, value in half.items()},
        )

    def encode(self, enc_X, enc_valid_lens):
        """As `Contender.encode`."""
        mask = keep(enc_valid_lens, enc_X.shape[1])
        return self.net.encoder(enc_X, mask=mask, return_embeddings=True)

    def decode(self, memory, enc_valid_lens, dec_X):
        """As `Contender.decode`."""
        mask = keep(enc_valid_lens, memory.shape[1])
        return self.net.decoder.net(dec_X, context=memory, context_mask=mask)

    def search(self, enc_X, enc_valid_lens, num_steps, beam_size, cached):
        """As `Contender.search`."""
        if beam_size > 1:
            if cached:
                raise Unavailable("its beam search takes no encoder")
            return recompute(self, enc_X, enc_valid_lens, num_steps, beam_size)
        return self.net.generate(
            enc_X,
            torch.full_like(enc_X[:, :1], BOS),
            num_steps,
            mask=keep(enc_valid_lens, enc_X.shape[1]),
            temperature=0.0,
            cache_kv=cached,
            eos_token=self.eos,
        )

    def never_end(self):
        """As `Contender.never_end`; its scores have no bias, but its search can go on."""
        self.eos = None


class Marian(Contender):
    """`MarianMTModel` of Hugging Face's transformers, built from a configuration."""

    def __init__(self, num_src: int, num_tgt: int, sizes: Sizes, num_steps: int):
        super().__init__()
        self.eos = EOS
        transformers = load("transformers")
        half = {
            "layers": sizes.num_layers,
            "attention_heads": sizes.num_heads,
            "ffn_dim": sizes.ffn_num_hiddens,
        }
        config = transformers.MarianConfig(
            vocab_size=num_src,
            decoder_vocab_size=num_tgt,
            share_encoder_decoder_embeddings=False,
            tie_word_embeddings=False,
            d_model=sizes.num_hiddens,
            max_position_embeddings=max(num_steps, 16),
            activation_function="relu",
            dropout=sizes.dropout,
            attention_dropout=sizes.dropout,
            scale_embedding=True,
            pad_token_id=PAD,
            bos_token_id=BOS,
            eos_token_id=EOS,
            forced_eos_token_id=None,
            decoder_start_token_id=BOS,
            attn_implementation="sdpa",
            **{f"encoder_{name}": value for name, value in half.items()},
            **{f"decoder_{name}": value for name, value in half.items()},
        )
        self.net = transformers.MarianMTModel(config)
        self.net.final_logits_bias[:, [PAD, BOS]] = -1e4  # as in this package's searches

    def forward(self, enc_X, dec_X, enc_valid_lens):
        """As `EncoderDecoder.forward`."""
        mask = keep(enc_valid_lens, enc_X.shape[1]).long()
        done = self.net(
            input_ids=enc_X, attention_mask=mask, decoder_input_ids=dec_X, use_cache=False
        )
        return done.logits, None

    def search(self, enc_X, enc_valid_lens, num_steps, beam_size, cached):
        """As `Contender.search`."""
        return self.net.generate(
            input_ids=enc_X,
            attention_mask=keep(enc_valid_lens, enc_X.shape[1]).long(),
            max_new_tokens=num_steps,
            num_beams=beam_size,
            do_sample=False,
            use_cache=cached,
            **({"length_penalty": 0.75} if beam_size > 1 else {}),
        )[:, 1:]

    def never_end(self):
        """As `Contender.never_end`."""
        self.net.final_logits_bias[:, EOS] = -1e4


def make_contenders(
    num_src: int, num_tgt: int, sizes: Sizes, num_steps: int, device: torch.device
) -> dict[str, Contender | str]:
    """A net of each contender for two vocabularies, or a sentence that says why there is none."""
    own = Own(num_src, num_tgt, sizes)
    nets: dict[str, Contender | str] = {"d2l_mini": own, "torch.nn": TorchNN(own)}
    for name, kind in (("x-transformers", XTransformers), ("transformers", Marian)):
        try:
            nets[name] = kind(num_src, num_tgt, sizes, num_steps)
        except Unavailable as error:
            nets[name] = str(error)
    return {n: net if isinstance(net, str) else net.to(device) for n, net in nets.items()}


def check_alike(nets: dict[str, Contender | str], num_steps: int) -> str:
    """Check that what is compared is alike, and say how many parameters each has.

    Raises ValueError if `torch.nn`, with copied weights, gives other logits than this package, or a
    contender has over 5 % more or fewer parameters.
    """
    counts = {
        name: sum(p.numel() for p in net.parameters() if p.requires_grad)
        for name, net in nets.items()
        if not isinstance(net, str)
    }
    ours = counts["d2l_mini"]
    for name, count in counts.items():
        if abs(count / ours - 1) > 0.05:
            raise ValueError(f"{name} has {count:,} parameters, d2l_mini {ours:,}: over 5 % apart")
    own = nets["d2l_mini"]
    device = next(own.parameters()).device
    num_src, num_tgt = own.net.encoder.sizes[0], own.net.decoder.sizes[0]
    enc_X = torch.randint(num_src, (8, num_steps), device=device)
    dec_X = torch.randint(num_tgt, (8, num_steps), device=device)
    lens = torch.arange(8, device=device) % num_steps + 1
    with torch.no_grad():
        one, other = (nets[name].eval()(enc_X, dec_X, lens)[0] for name in ("d2l_mini", "torch.nn"))
    apart = float((one - other).abs().max())
    if not apart < (1e-4 if device.type == "cpu" else 1e-2):  # a GPU may round to TF32
        raise ValueError(f"with the same weights the logits of torch.nn are {apart:.1e} apart")
    return "parameters: " + ", ".join(f"{name} {count:,}" for name, count in counts.items())
