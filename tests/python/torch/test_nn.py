# SPDX-License-Identifier: Apache-2.0
"""The modules: PyTorch's arguments, initial values and state, epilogues of all kinds, copies, and
DDP."""

import copy
import io
import pickle

import pytest
import torch
import torch.nn.functional as F

import upconv
from upconv._torch.execute import Statistics

NAMES = ("ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d")
ARGUMENTS = [
    (4, 6, 3),
    (4, 6, 3, 2, 1, 1, 2, False, 2),
    (4, 8, 2, 2),
]


def pair(name, *arguments, **options):
    """PyTorch's module and ours, from the same seed."""
    made = []
    for source in (torch.nn, upconv.nn):
        torch.manual_seed(7)
        made.append(getattr(source, name)(*arguments, **options))
    return made


def sample(name, channels=4):
    nd = int(name[-2])
    return torch.randn(2, channels, *(5, 4, 3)[:nd])


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_modules_are_pytorchs(name, arguments, library_runs):
    plain, ours = pair(name, *arguments)
    assert isinstance(ours, getattr(torch.nn, name))
    assert list(ours.state_dict()) == list(plain.state_dict())
    for key, value in plain.state_dict().items():
        assert torch.equal(ours.state_dict()[key], value)
    x = sample(name)
    with library_runs(2):
        torch.testing.assert_close(ours(x), plain(x))
        torch.testing.assert_close(ours(x[0]), plain(x[0]))
    assert repr(ours) == repr(plain)


@pytest.mark.parametrize("name", NAMES)
def test_output_size(name, library_runs):
    plain, ours = pair(name, 4, 6, 3, stride=2, padding=1)
    x = sample(name)
    size = [2 * extent for extent in x.shape[2:]]
    with library_runs(2):
        torch.testing.assert_close(ours(x, output_size=size), plain(x, output_size=size))
        torch.testing.assert_close(ours(x, [2, 6, *size]), plain(x, [2, 6, *size]))
    for wrong in ([1] * len(size), [2], [100] * len(size)):
        with pytest.raises(ValueError) as expected:
            plain(x, output_size=wrong)
        with pytest.raises(ValueError) as error:
            ours(x, output_size=wrong)
        assert str(error.value) == str(expected.value)


def test_padding_modes_and_wrong_arguments():
    with pytest.raises(ValueError, match="zeros"):
        upconv.nn.ConvTranspose2d(4, 6, 3, padding_mode="reflect")
    with pytest.raises(ValueError, match="divisible"):
        upconv.nn.ConvTranspose2d(4, 6, 3, groups=3)


def test_loads_trained_weights():
    plain = torch.nn.ConvTranspose2d(4, 6, 3)
    ours = upconv.nn.ConvTranspose2d(4, 6, 3, epilogue=["relu"])
    assert list(ours.state_dict()) == ["weight", "bias"]
    ours.load_state_dict(plain.state_dict())
    x = sample("ConvTranspose2d")
    torch.testing.assert_close(ours(x), plain(x).relu())


def test_device_and_dtype_arguments():
    ours = upconv.nn.ConvTranspose2d(4, 6, 3, dtype=torch.bfloat16)
    assert ours(sample("ConvTranspose2d").bfloat16()).dtype == torch.bfloat16
    assert upconv.nn.ConvTranspose2d(4, 6, 3, device="meta").weight.device.type == "meta"


# ---------------------------------------------------------------- epilogues


def rich():
    """A module whose epilogue has modules, a parameter, a buffer, and a tensor given with each
    call."""
    torch.manual_seed(1)
    return upconv.nn.ConvTranspose2d(
        4,
        6,
        3,
        stride=2,
        epilogue=[
            torch.nn.BatchNorm2d(6),
            torch.nn.PReLU(6),
            ("mul", torch.nn.Parameter(torch.randn(6, 1, 1))),
            ("add", torch.randn(6, 1, 1)),
            ("add", "#skip"),
            "leaky_relu 0.1",
            torch.nn.Dropout(0.0),
            torch.nn.MaxPool2d(2),
        ],
    )


def rich_by_hand(module, x, skip):
    y = F.conv_transpose2d(x, module.weight, module.bias, 2)
    tail = module.epilogue
    y = getattr(tail, "1")(getattr(tail, "0")(y))
    y = y * getattr(tail, "2").operand0 + getattr(tail, "3").operand0 + skip
    return F.max_pool2d(F.leaky_relu(y, 0.1), 2)


def test_state_of_an_epilogue():
    module = rich()
    assert list(module.state_dict()) == [
        "weight",
        "bias",
        "epilogue.0.weight",
        "epilogue.0.bias",
        "epilogue.0.running_mean",
        "epilogue.0.running_var",
        "epilogue.0.num_batches_tracked",
        "epilogue.1.weight",
        "epilogue.2.operand0",
        "epilogue.3.operand0",
    ]
    assert "epilogue.2.operand0" in dict(module.named_parameters())
    assert "epilogue.3.operand0" in dict(module.named_buffers())
    assert "leaky_relu 0.1" in repr(module)


def test_epilogue_in_eval_mode_is_one_pass(library_runs):
    module = rich().eval()
    getattr(module.epilogue, "0").running_mean.normal_()
    x, skip = sample("ConvTranspose2d"), torch.randn(2, 6, 11, 9)
    with library_runs(1):
        y = module(x, skip=skip)
    torch.testing.assert_close(y, rich_by_hand(module, x, skip), rtol=1e-5, atol=1e-5)


def test_epilogue_in_training_mode():
    """Batch norm looks at the batch, and updates its statistics, once."""
    module, twin = rich(), rich()
    x, skip = sample("ConvTranspose2d"), torch.randn(2, 6, 11, 9)
    y, expected = module(x, skip=skip), rich_by_hand(twin, x, skip)
    torch.testing.assert_close(y, expected, rtol=1e-5, atol=1e-5)
    y.square().sum().backward()
    expected.square().sum().backward()
    for one, other in zip(module.parameters(), twin.parameters()):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-4, atol=1e-4)
    for one, other in zip(module.buffers(), twin.buffers()):
        torch.testing.assert_close(one, other)


def test_given_tensors_are_checked():
    module = rich().eval()
    x = sample("ConvTranspose2d")
    with pytest.raises(TypeError, match="skip"):
        module(x)
    with pytest.raises(TypeError, match="skip"):
        module(x, skip=torch.zeros(1), other=torch.zeros(1))
    with pytest.raises(TypeError, match="no epilogue"):
        upconv.nn.ConvTranspose2d(4, 6, 3)(x, skip=torch.zeros(1))


def test_training_converges_like_pytorch():
    """A few steps of an optimizer: weights change in place, and packed ones follow."""
    x, target = sample("ConvTranspose2d"), torch.randn(2, 6, 5, 4)
    losses = []
    plain, ours = pair("ConvTranspose2d", 4, 6, 3, stride=2)
    fused = upconv.nn.ConvTranspose2d(4, 6, 3, stride=2, epilogue=["tanh", torch.nn.AvgPool2d(2)])
    fused.load_state_dict(plain.state_dict())
    for model in (lambda x: F.avg_pool2d(plain(x).tanh(), 2), fused):
        parameters = (plain if model is not fused else fused).parameters()
        optimizer = torch.optim.Adam(parameters, 0.02)
        for _ in range(15):
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), target)
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
    assert losses[0] < 1.2 and abs(losses[0] - losses[1]) < 1e-3


# ---------------------------------------------------------------- copies, promises, conversions


def copies(module):
    buffer = io.BytesIO()
    torch.save(module, buffer)
    buffer.seek(0)
    yield copy.deepcopy(module)
    yield copy.copy(module)
    yield pickle.loads(pickle.dumps(module))
    yield torch.load(buffer, weights_only=False)


@pytest.mark.parametrize("frozen", [False, True])
def test_copies(frozen):
    module = rich().eval()
    if frozen:
        upconv.frozen(module)
    x, skip = sample("ConvTranspose2d"), torch.randn(2, 6, 11, 9)
    y = module(x, skip=skip)
    for one in copies(module):
        assert one.frozen == frozen
        assert list(one.state_dict()) == list(module.state_dict())
        assert torch.equal(one(x, skip=skip), y)
    deep = copy.deepcopy(module)
    with torch.no_grad():
        deep.weight.mul_(2)
    assert torch.equal(module(x, skip=skip), y)
    assert not torch.equal(deep(x, skip=skip), y)


def test_frozen_modules_pack_once():
    net = torch.nn.Sequential(
        upconv.nn.ConvTranspose1d(4, 5, 3, 2, epilogue=["relu"]),
        upconv.nn.ConvTranspose1d(
            5, 6, 3, 2, epilogue=[("mul", torch.nn.Parameter(torch.ones(6, 1)))]
        ),
    )
    assert upconv.frozen(net) is net
    x = sample("ConvTranspose1d")
    with torch.no_grad():
        y, packs = net(x), Statistics.packs
        for _ in range(3):
            assert torch.equal(net(x), y)
        assert Statistics.packs == packs
        net[1].load_state_dict({k: 2 * v for k, v in net[1].state_dict().items()})
        assert not torch.equal(net(x), y)
        assert Statistics.packs == packs + 1


def test_frozen_argument():
    module = upconv.nn.ConvTranspose1d(4, 5, 3, frozen=True)
    assert module.frozen and "frozen" in repr(module)


def test_conversions():
    module = rich().eval()
    x, skip = sample("ConvTranspose2d"), torch.randn(2, 6, 11, 9)
    for dtype in (torch.bfloat16, torch.float64):
        other = copy.deepcopy(module).to(dtype)
        y = other(x.to(dtype), skip=skip.to(dtype))
        assert y.dtype == dtype
        expected = rich_by_hand(other.double(), x.to(dtype).double(), skip.to(dtype).double())
        tolerance = 0.1 if dtype == torch.bfloat16 else 1e-6
        torch.testing.assert_close(y.double(), expected, rtol=tolerance, atol=tolerance)
    last = copy.deepcopy(module).to(memory_format=torch.channels_last)
    y = last(x.to(memory_format=torch.channels_last), skip=skip)
    assert y.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(y, module(x, skip=skip))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("training", [False, True])
def test_compile(training):
    torch._dynamo.reset()
    module = rich().train(training)
    twin = copy.deepcopy(module)
    x, skip = sample("ConvTranspose2d"), torch.randn(2, 6, 11, 9)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    y = compiled(x, skip=skip)
    torch.testing.assert_close(y, twin(x, skip=skip))
    y.sum().backward()
    twin(x, skip=skip)
    assert module.weight.grad is not None


def test_functional_call_and_parametrization():
    module = upconv.nn.ConvTranspose1d(4, 5, 3, epilogue=["relu"])
    x = sample("ConvTranspose1d")
    other = {name: torch.randn_like(value) for name, value in module.named_parameters()}
    y = torch.func.functional_call(module, other, (x,))
    torch.testing.assert_close(y, F.conv_transpose1d(x, other["weight"], other["bias"]).relu())
    torch.nn.utils.parametrizations.weight_norm(module)
    torch.testing.assert_close(module(x), F.conv_transpose1d(x, module.weight, module.bias).relu())


# ---------------------------------------------------------------- DDP


def _module():
    torch.manual_seed(0)
    scale = torch.nn.Parameter(torch.ones(5, 1))
    return upconv.nn.ConvTranspose1d(4, 5, 3, 2, epilogue=["tanh", ("mul", scale)])


def _train(model, x):
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()


def _train_part(rank, file, x, results):
    """One of two processes, with its half of the batch."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{file}", rank=rank, world_size=2
    )
    module = _module()
    _train(torch.nn.parallel.DistributedDataParallel(module), x[2 * rank : 2 * rank + 2])
    if rank == 0:
        torch.save(module.state_dict(), results)
    torch.distributed.destroy_process_group()


@pytest.mark.skipif(not torch.distributed.is_available(), reason="PyTorch without distributed")
def test_ddp_of_two_processes_trains_like_one(tmp_path):
    x, results = torch.randn(4, 4, 6), tmp_path / "state.pt"
    torch.multiprocessing.spawn(_train_part, (tmp_path / "store", x, results), 2)
    module = _module()
    _train(module, x)
    for key, value in torch.load(results).items():
        torch.testing.assert_close(module.state_dict()[key], value)
