// Package graph is the intermediate form of graphrun: a static dataflow graph
// of tensors, its text form, and every pass that needs no knowledge of a
// particular operation.
//
// A [Graph] is a list of [Value]s in SSA form. A value is computed once, by its
// [Op] from its arguments and attributes, and keeps its id through all passes,
// so that the same number means the same thing in every dump. Package ops
// registers the operations; a [Builder] adds values and keeps the first error.
//
// # Dimensions
//
// A dimension is a number or a name bound when a step runs. The letters are the
// same in all packages:
//
//	T   tokens in this step, of any mix of sequences
//	R   rows of logits wanted
//	N   sequences in the step's page tables
//	C   pages per sequence, CW the same for windowed caches
//	S   positions in the pool of full caches, SW of windowed ones
//	D   width of the model          H   query heads
//	G   key and value heads         K   width of a head
//	F   width of the feed-forward   V   vocabulary
//	E   experts                     U   experts used per token
//
// Kernels use m, n, k for the sizes of a matrix product.
//
// # State
//
// A cache is a value like any other. Writing to it gives a new version, a value
// whose operation has the flag [State] and whose argument 0 is the version
// before; both are the same memory. Who reads which version is an edge of the
// graph, and Sort keeps readers of a version before the write that ends it.
//
// # Invariants
//
// [Verify] checks these rules, in this order; its errors name them:
//
//  1. order: every value is listed once, after its arguments.
//  2. id: ids are unique and below the graph's next id.
//  3. op: operations are registered and have as many arguments as they take.
//  4. attrs: attributes are known, complete, of the declared type, in key order.
//  5. type: a value has the type that its arguments imply; a const has as many
//     numbers as its type says, nothing else has data.
//  6. leaf: inputs, weights and caches have names, inputs one each and caches
//     one each per layer.
//  7. layer: -1 for none, else a block number.
//  8. view: a view or state has the element type of argument 0, whose storage it
//     shares; a view is no larger than what it shows.
//  9. state: the versions of a cache form one chain that starts at a leaf; each
//     is overwritten at most once and not read after that.
//  10. output: there is at least one; names are not repeated; values are in the
//     graph.
//  11. plan: either no value has a place in the arena or every value that owns
//     memory has one, aligned, inside the arena, for as long as it is needed,
//     and no two values alive in the same step share a byte.
//
// # Passes
//
// A pass is a func(*Graph) error and one row of a [Pipeline]. This package has
// the generic ones: [ConstFold], [CSE], [DCE], [Rules] for tables of rewrites,
// [Schedule] and [MemPlan]. The backend composes the whole table. Passes change
// values in place or redirect uses and append; dce removes, Sort puts in order.
package graph
