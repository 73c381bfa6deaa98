"""What supporting roaming clients costs, worked out instead of measured. Nothing here runs in a broker.

| module             | what it answers                                                                              |
|--------------------|----------------------------------------------------------------------------------------------|
| `messaging_cost`   | when pro-active hand-off is cheaper than reactive or durable, from how clients move           |
| `control_messages` | how many messages each operation of the protocol takes                                       |
| `ctmc`             | how many clients are at each broker, from the graph and the times of staying and going        |
| `curve`            | a curve through measured points, and what it predicts for other sizes                        |
| `stats`            | how sure one can be of either                                                                |
| `forecasting`      | clients, copies, buffer and throughput of each broker, for a graph and a number of clients    |
"""

from . import control_messages, ctmc, curve, forecasting, messaging_cost, stats

__all__ = ["control_messages", "ctmc", "curve", "forecasting", "messaging_cost", "stats"]
