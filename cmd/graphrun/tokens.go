package main

import (
	"strconv"
	"strings"

	"graphrun/engine"
)

// parseTokens reads comma-separated token ids and checks that the model has
// them.
func parseTokens(list string, m *engine.Model) ([]int32, error) {
	var ids []int32
	for part := range strings.SplitSeq(list, ",") {
		part = strings.TrimSpace(part)
		n, err := strconv.ParseInt(part, 10, 32)
		if err != nil {
			return nil, usagef("--tokens: found %q, want token ids such as 1,15,27", part)
		}
		if n < 0 || int(n) >= m.Limits().Vocab {
			return nil, usagef("--tokens: id %d is outside of the vocabulary, 0 to %d", n, m.Limits().Vocab-1)
		}
		ids = append(ids, int32(n))
	}
	return ids, nil
}
