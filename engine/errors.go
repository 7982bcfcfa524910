package engine

import "fmt"

// ContextError says that tokens do not fit the context. Nothing was computed.
type ContextError struct {
	Have int // positions of the context
	Want int // positions that are needed
}

// Error prints both numbers and what can be done.
func (e *ContextError) Error() string {
	return fmt.Sprintf("engine: %d tokens do not fit the context of %d; shorten the text or open the model with a larger context", e.Want, e.Have)
}

// PagesError says that the storage of keys and values has no room: other
// sequences hold the pages. Nothing was computed; drop a sequence and try again.
type PagesError struct {
	Kind  string // "full" or "window": which layers' storage
	Need  int    // pages this step has to add
	Free  int    // pages that are free
	Total int    // pages there are
}

// Error prints what is needed, what is free and what there is.
func (e *PagesError) Error() string {
	return fmt.Sprintf("engine: the KV cache of %s layers is out of pages: %d needed, %d of %d free (%d positions each)",
		e.Kind, e.Need, e.Free, e.Total, PageSize)
}

// RewindError says that a windowed layer no longer holds what the positions
// before To would look at. The sequence is unchanged; Reset starts over.
type RewindError struct {
	To     int // the length that was asked for
	Lowest int // the smallest length above 0 that can be reached
	Len    int // the present length
}

// Error prints the lengths and the way out.
func (e *RewindError) Error() string {
	return fmt.Sprintf("engine: cannot rewind from %d to %d positions: the sliding-window layers hold enough only for %d and more; reset and start over",
		e.Len, e.To, e.Lowest)
}

// NonFiniteError says that the model computed NaN or infinity. The step's
// tokens are not kept.
type NonFiniteError struct {
	What  string // "logits" or "hidden state"
	Token int    // position of the token in its sequence
	ID    int32  // the token itself
	Item  int    // the step's item that has it
}

// Error names the token; which layer began it is not known here.
func (e *NonFiniteError) Error() string {
	return fmt.Sprintf("engine: non-finite %s at token %d (layer unknown; token id %d)", e.What, e.Token, e.ID)
}

// MemoryError says that the machine cannot hold the model.
type MemoryError struct {
	Report MemoryReport
	// Refused is the system's error when it was asked for the memory, which
	// Options.Overcommit does not overrule; nil where only numbers were
	// compared.
	Refused error
}

// Error prints the parts, the sum and what is available.
func (e *MemoryError) Error() string {
	r := e.Report
	if e.Refused != nil {
		return fmt.Sprintf("engine: the system refuses %s of memory (KV cache %s, activations %s): %v; use a smaller context or fewer sequences",
			mib(r.KVBytes()+r.Arena), mib(r.KVBytes()), mib(r.Arena), e.Refused)
	}
	return fmt.Sprintf("engine: the model needs %s (weights %s, KV cache %s, activations %s), the machine has %s available (%s); use a smaller context, fewer sequences or a smaller model",
		mib(r.Total), mib(r.Weights), mib(r.KVBytes()), mib(r.Arena), mib(r.Available), r.Limit)
}

// NoTokenizerError says that a model has no tokenizer, where text is needed.
type NoTokenizerError struct {
	Path string
}

// Error names the model and the ways out.
func (e *NoTokenizerError) Error() string {
	return fmt.Sprintf("engine: %s has no tokenizer, so text cannot be read or written; put tokenizer.json or tokenizer.model beside the weights (graphrun logits, check and bench work on token ids alone)", e.Path)
}

// mib prints bytes with the unit people compare with.
func mib(n int) string {
	if n >= 1<<30 {
		return fmt.Sprintf("%.2f GiB", float64(n)/(1<<30))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}
