"""A pool counts holders, and tells what the tree alone holds."""

from __future__ import annotations

import pytest

from helios.cache.rows import row_pool
from helios.values import SnapshotRow


def test_what_only_the_tree_holds_is_idle() -> None:
    pool = row_pool(2)
    (row,) = pool.take(1)
    pool.adopt(row)
    assert (pool.idle, pool.holders(row)) == (0, 2)
    pool.give_back([row])
    assert (pool.idle, pool.is_idle(row)) == (1, True)
    pool.share([row])
    assert (pool.idle, pool.is_idle(row)) == (0, False)
    pool.disown(row)
    assert (pool.idle, pool.holders(row)) == (0, 1)
    pool.audit_holders({row: 1})


def test_what_the_tree_lets_go_is_free() -> None:
    pool = row_pool(1)
    (row,) = pool.take(1)
    pool.adopt(row)
    pool.give_back([row])
    pool.disown(row)
    assert (pool.idle, pool.free) == (0, 1)
    pool.audit()


def test_the_trees_own_hold_is_given_back_by_the_tree_alone() -> None:
    pool = row_pool(1)
    (row,) = pool.take(1)
    with pytest.raises(AssertionError, match="row 0 is not the tree's"):
        pool.disown(row)
    pool.adopt(row)
    with pytest.raises(AssertionError, match="row 0 is the tree's already"):
        pool.adopt(row)
    pool.give_back([row])
    with pytest.raises(AssertionError, match="row 0 is the tree's"):
        pool.give_back([row])


def test_a_holder_that_nobody_knows_is_found() -> None:
    pool = row_pool(2)
    pool.take(2)
    with pytest.raises(AssertionError, match="row 1: 1 holders, 0 known"):
        pool.audit_holders({SnapshotRow(0): 1})
