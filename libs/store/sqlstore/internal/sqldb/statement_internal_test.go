package sqldb

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/engine"
	"github.com/carillon-timer/carillon/libs/timer"
)

// TestNumbersAreBoundInTheirPlaces checks the order of the arguments where texts are kept prepared.
func TestNumbersAreBoundInTheirPlaces(t *testing.T) {
	t.Parallel()
	kept := &DB{Dialect: &Dialect{KeepsPrepared: true}}
	other := &DB{Dialect: new(Dialect)}
	make3 := func() *Statement {
		part := Stmt("b=").Bind("x").Add(" OR c>").Int(-5)
		return Stmt("SELECT 1 WHERE a=").Int(7).Add(" AND (").Append(part).Add(") AND d=").
			Bind("y").Add(" AND e").IDList([]timer.ID{1, 2}).Literal("word").
			Add(" LIMIT ").Int(9).Add(" OFFSET ").Int(8)
	}
	ctx, text, args := kept.render(t.Context(), make3())
	require.Equal(
		t,
		"SELECT 1 WHERE a=? AND (b=? OR c>?) AND d=? AND e IN (?,?)'word' LIMIT 9 OFFSET ?",
		text,
	)
	require.Equal(t, []any{int64(7), "x", int64(-5), "y", int64(1), int64(2), int64(8)}, args)
	require.False(t, engine.IsOnce(ctx))
	_, text, args = other.render(t.Context(), make3())
	require.Equal(
		t,
		"SELECT 1 WHERE a=7 AND (b=? OR c>-5) AND d=? AND e IN (1,2)'word' LIMIT 9 OFFSET 8",
		text,
	)
	require.Equal(t, []any{"x", "y"}, args)
}

// TestBatchesAreNotKept checks that texts with many numbers, which hardly come again, stay as they
// are, unless they are made to come again.
func TestBatchesAreNotKept(t *testing.T) {
	t.Parallel()
	db := &DB{Dialect: &Dialect{KeepsPrepared: true}}
	fill := func(q *Statement, n int) *Statement {
		for range n {
			q.Int(1)
		}
		return q
	}
	for _, q := range []*Statement{
		fill(Stmt(""), maxBound+1),
		fill(Stmt(""), maxBound).Append(Stmt("").Int(1)),
		Stmt("").Int(1).Append(fill(Stmt(""), 2*maxBound)),
	} {
		ctx, text, args := db.render(t.Context(), q)
		require.True(t, engine.IsOnce(ctx))
		require.NotContains(t, text, "?")
		require.Empty(t, args)
	}
	ctx, _, args := db.render(t.Context(), fill(Stmt(""), maxBound))
	require.False(t, engine.IsOnce(ctx))
	require.Len(t, args, maxBound)
	ctx, _, args = db.render(t.Context(), fill(&Statement{Prepared: true}, 2*maxBound))
	require.False(t, engine.IsOnce(ctx))
	require.Len(t, args, 2*maxBound)
}
