"""A driver of Spark that carries everything from one broker to another, until it is killed.

python pipe_child.py FROM TO ARCHIVE CHECKPOINT [MASTER]
"""

from __future__ import annotations

import sys

from tidings.spark import explained, session


def main(origin: str, target: str, archive: str, checkpoint: str, master: str = "local[2]") -> None:
    options = {"spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1", "spark.driver.memory": "512m"}
    spark = session(master, options=options)
    with explained():
        source = spark.readStream.format("tidings").option("broker", origin).option("maxRowsPerTrigger", "400")
        rows = source.option("promote", "n:integer").load(archive).select("n").repartition(2, "n")
        writing = rows.writeStream.format("tidings").option("broker", target)
        query = writing.option("checkpointLocation", checkpoint).trigger(processingTime="100 milliseconds").start()
        print("running", flush=True)
        query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
