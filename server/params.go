package server

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strconv"
	"unicode/utf8"

	"graphrun/engine"
)

// The bounds of what one request may ask for. Those of OpenAI are kept where
// there are some, unless theirs are small.
const (
	maxChoices = 64 // n
	maxStops   = 16
	maxTop     = 20 // top_logprobs
	maxBiases  = 4096
	maxTokens  = 1 << 30
)

// params are the fields that chat, completions and responses share.
type params struct {
	sample engine.SampleOptions
	stop   []string
	n      int
	limit  int // of tokens; -1 is none
	ignore bool
}

// sampling reads how tokens are chosen. What the request does not say is the
// server's default.
func (s *Server) sampling(o *object, vocab int) params {
	p := params{sample: s.o.Sampling, n: 1, limit: -1}
	if v, ok := o.float("temperature", 0, 100); ok {
		p.sample.Temperature = v
	}
	if v, ok := o.float("top_p", 0, 1); ok {
		// 0 means the likeliest token alone; the sampler's 0 is all of them.
		p.sample.TopP = max(v, math.SmallestNonzeroFloat64)
	}
	if v, ok := o.float("min_p", 0, 1); ok {
		p.sample.MinP = v
	}
	if v, ok := o.integer("top_k", -1, math.MaxInt32); ok {
		p.sample.TopK = int(v)
	}
	for _, name := range []string{"repetition_penalty", "repeat_penalty"} {
		if v, ok := o.float(name, 0.01, 100); ok {
			p.sample.RepeatPenalty = v
		}
	}
	if v, ok := o.float("frequency_penalty", -2, 2); ok {
		p.sample.FrequencyPenalty = v
	}
	if v, ok := o.float("presence_penalty", -2, 2); ok {
		p.sample.PresencePenalty = v
	}
	if v, ok := o.integer("seed", math.MinInt64, math.MaxInt64); ok {
		p.sample.Seed = uint64(v)
	} else {
		p.sample.Seed = rand.Uint64()
	}
	if v, ok := o.integer("n", 1, maxChoices); ok {
		p.n = int(v)
	}
	if v, ok := o.boolean("ignore_eos"); ok {
		p.ignore = v
	}
	p.stop = stops(o)
	p.sample.Bias = biases(o, vocab)
	return p
}

// stops reads a string or a list of strings.
func stops(o *object) []string {
	raw, ok := o.raw("stop")
	if !ok {
		return nil
	}
	list := []json.RawMessage{raw}
	if raw[0] != '"' {
		if list, ok = o.list("stop", maxStops); !ok {
			return nil
		}
	}
	var out []string
	for i, raw := range list {
		var v string
		path := "stop"
		if len(list) > 1 {
			path += "[" + strconv.Itoa(i) + "]"
		}
		switch {
		case json.Unmarshal(raw, &v) != nil || raw[0] != '"':
			o.first.set(badRequest(path, "invalid_type", "%s is %s, want a string", path, kindOf(raw)))
			return nil
		case v == "" || !utf8.ValidString(v):
			o.first.set(badRequest(path, "invalid_value", "%s is empty; a stop string needs at least one character", path))
			return nil
		}
		out = append(out, v)
	}
	return out
}

// biases reads {"id": number}. -100 bans a token, as it is documented to.
func biases(o *object, vocab int) []engine.Bias {
	b, ok := o.object("logit_bias")
	if !ok {
		return nil
	}
	if len(b.keys) > maxBiases {
		o.fail("logit_bias", "too_many", "has %d entries, want at most %d", len(b.keys), maxBiases)
		return nil
	}
	var out []engine.Bias
	for _, key := range b.keys {
		id, err := strconv.ParseInt(key, 10, 32)
		if err != nil || id < 0 || int(id) >= vocab {
			o.fail("logit_bias", "invalid_token", "has the key %q, want the id of a token, 0 to %d", quote(key), vocab-1)
			return nil
		}
		v, ok := b.float(key, -100, 100)
		if !ok {
			continue
		}
		if v <= -100 {
			v = math.Inf(-1)
		}
		out = append(out, engine.Bias{ID: int32(id), Add: float32(v)})
	}
	return out
}

// limits reads the most tokens of an answer from any of the given fields; least
// is the smallest that is allowed. Fields that disagree are an error.
func (p *params) limits(o *object, least int64, names ...string) {
	from := ""
	for _, name := range names {
		v, ok := o.integer(name, least, maxTokens)
		if !ok {
			continue
		}
		if from != "" && int(v) != p.limit {
			o.fail(name, "conflict", "is %d and %s is %d; give one of them", v, from, p.limit)
			return
		}
		p.limit, from = int(v), name
	}
}

// options returns the engine's options for choice i.
func (p *params) options(i int, most int) engine.GenerateOptions {
	o := engine.GenerateOptions{SampleOptions: p.sample, Stop: p.stop, IgnoreEOG: p.ignore}
	o.Seed += uint64(i)
	o.MaxTokens = max(p.limit, 0)
	if most > 0 && (o.MaxTokens == 0 || o.MaxTokens > most) {
		o.MaxTokens = most
	}
	return o
}

// harmless are fields of the API that change no answer of this server.
var harmless = []string{"user", "store", "metadata", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "cache_prompt"}
