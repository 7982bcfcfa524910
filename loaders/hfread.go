package loaders

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// HFReader turns a config.json into the keys of a GGUF file. It keeps the first
// error, and all fields that are missing, so that Read functions need no error
// handling: after an error getters return zero values.
type HFReader struct {
	Config *HFConfig
	Meta   *Metadata
	// Halves is that rotary pairs stay as the folder has them; see HF.Pairs.
	Halves bool

	arch    string
	hf      *HF
	missing []string
	notes   []string
	derived map[string][]float32 // tensors that follow from the config
	from    map[string]string    // paths of the fields that keys follow from
	has     func(gguf string) bool
	err     error
}

// Fail keeps err if it is the first.
func (r *HFReader) Fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// FailField records that a field's value does not fit.
func (r *HFReader) FailField(field, want string, args ...any) {
	r.Fail(r.Config.fieldError(field, fmt.Sprintf(want, args...)))
}

// Missing records that a field is missing. All that are will be in one error.
func (r *HFReader) Missing(field string) {
	r.missing = append(r.missing, r.Config.where(field))
}

// Note keeps a sentence for the person who opens the folder.
func (r *HFReader) Note(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

// Derive adds a tensor of one dimension that follows from the config, unless
// the folder has it.
func (r *HFReader) Derive(name string, numbers []float32) { r.derived[name] = numbers }

// HasTensor reports whether the folder has a tensor, by its name in GGUF files.
func (r *HFReader) HasTensor(gguf string) bool { return r.has(gguf) }

// Set gives a key, named without the architecture's prefix, a value.
func (r *HFReader) Set(key string, v any) { r.Meta.Set(r.arch+"."+key, v) }

// From says which field a key, named without the architecture's prefix, follows
// from, for errors about its value: the first of those that are there, or of all.
func (r *HFReader) From(key string, fields ...string) {
	field := fields[0]
	if i := slices.IndexFunc(fields, r.Config.Has); i >= 0 {
		field = fields[i]
	}
	r.from[r.arch+"."+key] = r.Config.where(field)
}

// Key returns a value that was set, as an integer; 0 if it is absent.
func (r *HFReader) Key(key string) int {
	n, _, err := r.Meta.Int(r.arch + "." + key)
	if err != nil {
		r.Fail(err)
	}
	return int(n)
}

// Has reports whether one of the fields is there.
func (r *HFReader) Has(fields ...string) bool { return slices.ContainsFunc(fields, r.Config.Has) }

// Off returns a number that null and 0 switch off, and what the model type
// defines where the field is absent.
func (r *HFReader) Off(field string, defined float64) float64 {
	x, ok := r.Float(field)
	if !ok && r.err == nil && r.Config.fields[r.Config.where(field)] == nil {
		r.Note("config.json has no %s; the %v that model_type %s defines is taken", field, defined, r.Config.ModelType)
		return defined
	}
	return x
}

// Object refuses a field that is there and no object, or lies in one that is
// none. Fields in it would seem absent.
func (r *HFReader) Object(field string) {
	path := r.Config.where(field)
	for i := range len(path) + 1 {
		if i < len(path) && path[i] != '.' {
			continue
		}
		if v := r.Config.fields[path[:i]]; v != nil && string(v) != "null" {
			r.FailField("/"+path[:i], "an object or null")
			return
		}
	}
}

// Int returns an integer, the same in all of the fields that are there.
func (r *HFReader) Int(fields ...string) (int, bool) { return hfFirst(r, r.Config.Int, fields) }

// Float returns a number, the same in all of the fields that are there.
func (r *HFReader) Float(fields ...string) (float64, bool) { return hfFirst(r, r.Config.Float, fields) }

// Bool returns a bool, the same in all of the fields that are there.
func (r *HFReader) Bool(fields ...string) (bool, bool) { return hfFirst(r, r.Config.Bool, fields) }

// Text returns a string, the same in all of the fields that are there.
func (r *HFReader) Text(fields ...string) (string, bool) { return hfFirst(r, r.Config.Text, fields) }

// Texts returns a list of strings.
func (r *HFReader) Texts(field string) []string {
	v, _, err := r.Config.Texts(field)
	if err != nil {
		r.Fail(err)
	}
	return v
}

// hfFirst reads fields that mean the same and must agree.
func hfFirst[T comparable](r *HFReader, get func(string) (T, bool, error), fields []string) (v T, given bool) {
	first := ""
	for _, f := range fields {
		x, ok, err := get(f)
		switch {
		case err != nil:
			r.Fail(err)
			return v, false
		case !ok:
		case !given:
			v, given, first = x, true, f
		case x != v:
			r.FailField(f, "%v as in field %s, which means the same", v, r.Config.where(first))
			return v, true
		}
	}
	return v, given
}

// fields sets the keys that data describes.
func (r *HFReader) fields() {
	var defaults []string
	for _, f := range r.hf.Fields {
		r.From(f.Key, f.From...)
		v, ok := r.field(f)
		switch {
		case r.err != nil:
			return
		case ok:
			r.Set(f.Key, v)
		case f.Default != nil:
			r.Set(f.Key, f.Default)
			defaults = append(defaults, fmt.Sprintf("%s (%v)", r.Config.where(f.From[0]), f.Default))
		case !f.Optional:
			r.Missing(f.From[0])
		}
	}
	if len(defaults) > 0 {
		r.Note("%s lacks fields; what model_type %s defines is taken: %s", hfConfigName, r.Config.ModelType, strings.Join(defaults, ", "))
	}
	for _, c := range r.hf.Checks {
		r.check(c)
	}
}

// field returns a field with the type its key has.
func (r *HFReader) field(f HFField) (v any, ok bool) {
	switch f.Type {
	case TypeU32:
		var n int
		n, ok = r.Int(f.From...)
		v = uint32(n)
	case TypeF32:
		var x float64
		x, ok = r.Float(f.From...)
		v = float32(x)
	case TypeBool:
		v, ok = r.Bool(f.From...)
	default:
		v, ok = r.Text(f.From...)
	}
	return v, ok
}

// check refuses a field whose value would change the computation.
func (r *HFReader) check(c HFCheck) {
	raw := r.Config.raw(c.Field)
	if raw == nil && !r.Config.groups[r.Config.where(c.Field)] {
		return
	}
	if !slices.Contains(c.Want, string(raw)) {
		want := strings.Join(append(slices.Clone(c.Want), "null"), " or ")
		r.FailField(c.Field, "%s: %s", want, c.Why)
	}
}

// missingError lists all fields that are missing, by their path.
func (r *HFReader) missingError() error {
	return &FormatError{Format: hf, File: r.Config.Path, Err: fmt.Errorf("missing, expected for model_type %s: %s",
		r.Config.ModelType, strings.Join(r.missing, ", "))}
}

// readKeys fills the keys of the architecture. has tells which tensors, by
// their names in GGUF files, the folder has.
func (c *HFConfig) readKeys(arch string, h *HF, halves bool, has func(string) bool) (*HFReader, error) {
	r := &HFReader{Config: c, Meta: NewMetadata(), Halves: halves, arch: arch, hf: h, derived: map[string][]float32{}, from: map[string]string{}, has: has}
	r.Meta.file = c.Path
	r.Meta.Set("general.architecture", arch)
	if c.text = slices.Contains(h.Wrapped, c.ModelType); c.text && !c.groups["text_config"] {
		c.text = false
		return nil, c.fieldError("text_config", "the object with the decoder's fields, as model_type is "+c.ModelType)
	}
	if err := c.quantSchemes(); err != nil {
		return nil, err
	}
	r.fields()
	if r.err == nil && len(r.missing) == 0 && h.Read != nil {
		h.Read(r)
	}
	if h.Pairs != "" && halves {
		r.Set(h.Pairs, "half")
	}
	switch {
	case len(r.missing) > 0:
		return nil, r.missingError()
	case r.err != nil:
		return nil, r.err
	}
	return r, nil
}

// tied reports whether the output is the embedding.
func (r *HFReader) tied() bool {
	v, ok := r.Bool("/tie_word_embeddings")
	if !ok {
		v, ok = r.Bool("tie_word_embeddings")
	}
	if !ok {
		v = r.hf.Tied
	}
	return v
}

// RopeDivisors returns what the frequencies of rotary pairs are divided by in
// Llama 3: 1 for those with short waves, factor for long ones, a mean between.
//
//	w = theta^(-2i/width), λ = 2π/w, m = (context/λ - low) / (high - low)
//	1 if λ < context/high; factor if λ > context/low; else 1 / ((1-m)/factor + m)
func RopeDivisors(width int, theta, factor, low, high float64, context int) ([]float32, error) {
	if width < 2 || factor < 1 || low <= 0 || high <= low || context < 1 || theta <= 0 {
		return nil, errors.New("expected factor at least 1, low_freq_factor above 0 and below high_freq_factor")
	}
	out := make([]float32, width/2)
	for i := range out {
		// The steps are rounded to f32 as the format's reference program does.
		w := 1 / float32(math.Pow(theta, float64(float32(2*i)/float32(width))))
		wave := float32(2*math.Pi) / w
		switch {
		case wave < float32(float64(context)/high):
			out[i] = 1
		case wave > float32(float64(context)/low):
			out[i] = float32(factor)
		default:
			m := (float32(context)/wave - float32(low)) / float32(high-low)
			out[i] = 1 / ((1-m)/float32(factor) + m)
		}
	}
	return out, nil
}
