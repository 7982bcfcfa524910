package graph

// Schedule puts the values in the order in which they are computed: arguments
// first, readers of a cache before the value that overwrites it, otherwise the
// order in which the model's author wrote them. Values that a pass added come
// right before their first user, which keeps lives short.
//
// The order depends on ids and edges alone, so that two graphs that differ only
// in the order of their values get the same schedule. It is kept close to the
// source on purpose: neighbours that do not depend on each other, such as the
// products for q, k and v, stay neighbours, and a team of workers passes from
// one to the next without waiting.
func Schedule(g *Graph) error { return g.Sort() }
