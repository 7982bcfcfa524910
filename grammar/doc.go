// Package grammar makes a model write only what a grammar or a JSON Schema
// allows.
//
// ParseGBNF and FromSchema compile to the same thing: rules that are automata
// over bytes and may call each other, a pushdown automaton as a whole. A Vocab
// holds a vocabulary as a trie of bytes. A Matcher walks one answer: before each
// token it tells the sampler which tokens may come, afterwards it moves on.
//
//	v := grammar.NewVocab(model.Tokenizer)
//	g, err := grammar.FromSchema(schema)
//	…
//	o.Constraint = g.Matcher(v)
//
// What a token may be depends on the innermost rule alone as long as the token
// does not leave it. So the set of allowed tokens is kept per state of a rule,
// together with the places of the trie where a token leaves the rule; for those
// the walk goes on in the rule outside, and that is kept as well. Every set is
// computed once, whatever the nesting, and a mask is the union of a few sets.
//
// What cannot be enforced is an error of the constructors: nothing is ignored.
package grammar
