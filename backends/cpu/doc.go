// Package cpu is the fast backend: it optimizes the graph by the passes of one
// table (lower.go), plans its memory, binds each value to a kernel
// (dispatch.go) and runs the resulting instruction list on a team of workers
// (program.go, team.go).
//
// A step allocates nothing and sends nothing through channels while it runs.
// Each instruction is split by its units (rows of the result as a rule) into
// one contiguous range per worker; no bit of a result depends on the split.
package cpu
