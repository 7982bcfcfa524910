package ops

import "graphrun/graph"

// FuseRope is the pass "fuse-rope": keys that are turned and then stored are
// turned on their way to the cache.
var FuseRope = graph.Rules(graph.Rule{
	Name:  "fuse-rope",
	Doc:   "kvwrite(cache, rope(k,pos,factors), v, pos, seq, pages) = ropewrite(cache, k, v, pos, seq, pages, factors)",
	Match: graph.Pat("kvwrite", graph.Any("cache"), graph.Pat("rope").As("rope").Once(), graph.Any("v"), graph.Any("pos"), graph.Any("seq"), graph.Any("pages")),
	If:    func(m *graph.Match) bool { return m.Get("rope").Args[1] == m.Get("pos") },
	Make: func(m *graph.Match) *graph.Value {
		rope := m.Get("rope")
		args := []*graph.Value{m.Get("cache"), rope.Args[0], m.Get("v"), m.Get("pos"), m.Get("seq"), m.Get("pages")}
		return m.New(opRopeWrite, rope.Attrs, append(args, rope.Args[2:]...)...)
	},
})
