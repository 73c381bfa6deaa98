"""`python -m tidings`: a first look, until the server is there."""

from tidings.sim import Network


def main() -> None:
    """Route a few quotes through three brokers in virtual time, and say what happened."""
    network = Network(seed=7)
    network.add_brokers(["berlin", "paris", "rome"], links=[("berlin", "paris"), ("paris", "rome")])
    alice, bob = network.add_client("alice", "berlin"), network.add_client("bob", "rome")
    wanted = "type = 'quote' AND price > 100"
    bob.subscribe(wanted)
    network.run()
    print("Three brokers: berlin - paris - rome. Bob, at rome, subscribes to")
    print(f"    {wanted}")
    for symbol, price in [("SAP", 182.4), ("ABC", 12.5), ("XYZ", 101.0)]:
        alice.publish(type="quote", symbol=symbol, price=price)
        print(f"Alice, at berlin, publishes {symbol} at {price}")
    network.run()
    for quote in bob.received:
        print(f"Bob receives {quote['symbol']} at {quote['price']}")
    print("Next: README.md and docs/filters.md.")


if __name__ == "__main__":
    main()
