// Package profile says what a model spends its time on: per operation, per
// layer, per kernel, and what the workers wait for. A [Collector] sums the
// timelines of a program's steps; a [Report] is the tables for people, and the
// same numbers are written as a pprof profile and as a trace of events.
//
// Time is that of the clock on the wall. While n workers run, each owns an n-th
// of it: an operation's time is what all workers spent in it, divided by n, and
// so are the times they wait for each other. The rows of a table therefore add
// up to the time that has passed.
//
// Bytes and multiply-adds are those that the operations of the graph need, from
// the shapes of the step; attention counts whole pages of its caches, for each
// token as many as the step's tokens see on average.
package profile
