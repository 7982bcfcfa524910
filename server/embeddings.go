package server

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"net/http"

	"golang.org/x/sync/errgroup"

	"graphrun/engine"
)

// embedding is one vector of an answer.
type embedding struct {
	Object string `json:"object"`
	Index  int    `json:"index"`
	Vector any    `json:"embedding"` // a list of numbers or a string
}

// embedTogether is how many texts of one request wait in the queue at once.
const embedTogether = 8

// embeddings answers POST /v1/embeddings.
func (s *Server) embeddings(w http.ResponseWriter, r *http.Request, who *client) error {
	m, o, err := s.open(w, r, who)
	if err != nil {
		return err
	}
	encoding := "float"
	if v, ok := o.choice("encoding_format", "float", "base64"); ok {
		encoding = v
	}
	if d, ok := o.integer("dimensions", 1, math.MaxInt32); ok && int(d) != m.m.Arch.D {
		o.fail("dimensions", "unsupported_parameter", "is %d; the vectors of this model have %d numbers and cannot be shortened", d, m.m.Arch.D)
	}
	eo := engine.EmbedOptions{Pool: s.o.Pool}
	if v, ok := o.choice("pooling", "mean", "last"); ok {
		eo.Pool = engine.PoolMean
		if v == "last" {
			eo.Pool = engine.PoolLast
		}
	}
	inputs := m.readPrompts(o, "input", true, false)
	o.ignore(harmless...)
	if err := o.done(); err != nil {
		return err
	}
	tokens := 0
	for i, ids := range inputs {
		if len(ids) == 0 {
			return badRequest("input", "empty_prompt", "input %d is empty, and this model has no token to begin a text with", i)
		}
		if len(ids) > m.limits.Context {
			return badRequest("input", "context_length_exceeded", "input %d has %d tokens, the context of this server is %d; shorten it or start the server with a larger --ctx", i, len(ids), m.limits.Context)
		}
		tokens += len(ids)
	}
	out := make([]embedding, len(inputs))
	group, ctx := errgroup.WithContext(r.Context())
	group.SetLimit(embedTogether)
	for i, ids := range inputs {
		group.Go(func() error {
			v, err := m.sched.Embed(ctx, who.partition, ids, eo)
			if err != nil {
				return err
			}
			out[i] = embedding{Object: "embedding", Index: i, Vector: v}
			if encoding == "base64" {
				b := make([]byte, 0, 4*len(v))
				for _, x := range v {
					b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
				}
				out[i].Vector = base64.StdEncoding.EncodeToString(b)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	who.prompt = tokens
	type use struct {
		Prompt int `json:"prompt_tokens"`
		Total  int `json:"total_tokens"`
	}
	writeJSON(w, http.StatusOK, struct {
		Object string      `json:"object"`
		Data   []embedding `json:"data"`
		Model  string      `json:"model"`
		Usage  use         `json:"usage"`
	}{"list", out, s.o.Name, use{tokens, tokens}})
	return nil
}
