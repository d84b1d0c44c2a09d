"""The latency histograms of many trials as arrays, and as a table of their buckets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from reprofs.data.columns import schema


@dataclass
class Histograms:
    """The histograms of some trials, their buckets one after the other, each histogram sorted."""

    identity: pa.Table  # of the trials
    places: list[tuple[int, str, str, int]]  # row of its trial in identity, phase, cache, number of buckets
    index: np.ndarray
    count: np.ndarray

    @classmethod
    def of(cls, identity: pa.Table, places: list[tuple[int, str, str, int]], buckets: list[np.ndarray]) -> Histograms:
        """buckets: for each histogram, in any order, one row per bucket: index, count."""
        numbers = np.concatenate([np.empty((0, 2), np.int64), *buckets])
        index, count = numbers[:, 0].astype(np.int16), numbers[:, 1].copy()
        histogram = np.repeat(np.arange(len(buckets)), [len(one) for one in buckets])
        if ((index[1:] <= index[:-1]) & (histogram[1:] == histogram[:-1])).any():
            order = np.lexsort((count, index, histogram))
            index, count = index[order], count[order]
        return cls(identity, places, index, count)

    def table(self) -> pa.Table:
        """One row per bucket; its texts are numbers of a dictionary."""
        trial, phase, cache, sizes = zip(*self.places, strict=True) if self.places else ((), (), (), ())
        keys = self.identity.take(pa.array(trial, pa.int64()))
        keys = keys.append_column("phase", pa.array(phase, pa.string()))
        keys = keys.append_column("cache", pa.array(cache, pa.string()))
        columns = {}
        for name, column in zip(keys.column_names, keys.columns, strict=True):
            if column.type == pa.string():
                coded = column.combine_chunks().dictionary_encode()
                indices = np.repeat(coded.indices.to_numpy(), np.array(sizes, int))
                columns[name] = pa.DictionaryArray.from_arrays(indices, coded.dictionary)
            else:
                columns[name] = column.take(np.repeat(np.arange(len(column)), np.array(sizes, int)))  # some may be null
        lower, upper = bucket_bounds(self.index.astype(np.int64))
        columns |= {"lower_ns": pa.array(lower), "upper_ns": pa.array(upper)}
        columns["count"] = pa.array(self.count)
        return pa.table(columns)


def packed() -> pa.Schema:
    """The schema of the table with texts as numbers of a dictionary, which is how parquet writes them anyway."""
    coded = pa.dictionary(pa.int32(), pa.string())
    fields = schema("latency")
    return pa.schema([(field.name, coded if field.type == pa.string() else field.type) for field in fields])


def bucket_bounds(index):
    """Bounds [lower, upper) in ns of buckets of the log-linear histogram with 64 sub-buckets an octave.

    index: a number or an array.
    """
    exponent = np.maximum((index >> 6) - 1, 0)
    lower = np.where(index < 128, index, ((index & 63) | 64) << exponent)
    return lower, lower + (1 << exponent)
