import agentkit


def test_the_face_is_complete_and_in_order() -> None:
    names = [
        name
        for name, value in vars(agentkit).items()
        if not name.startswith("_") and getattr(value, "__module__", "").startswith("agentkit.")
    ]

    assert list(agentkit.__all__) == sorted(agentkit.__all__)
    assert set(names) <= set(agentkit.__all__)
    assert all(getattr(agentkit, name) is not None for name in agentkit.__all__)
