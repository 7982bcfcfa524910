package chat

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/ardanlabs/jinja"

	"graphrun/loaders"
)

// Template is a compiled chat template. It may be used by any number of
// goroutines.
type Template struct {
	name     string // of the file or model, for errors
	source   string
	compiled *jinja.Template
	literals []string // what it can print of its own
	traits   traits
}

// maxTemplate bounds the length of a template. The longest published ones have
// about 20 KiB.
const maxTemplate = 1 << 20

// ErrNoTemplate says that a model has no chat template.
var ErrNoTemplate = errors.New("chat: the model has no chat template")

// TemplateError is an error of a template: of its text, or one that it raised
// itself.
type TemplateError struct {
	Name string // file or model
	// Raised is set for what raise_exception was called with: the messages are
	// at fault, not the template.
	Raised bool
	Err    error
}

// Error prints the template's own message as it is, others with the name.
func (e *TemplateError) Error() string {
	if e.Raised {
		return "chat template: " + e.Err.Error()
	}
	return fmt.Sprintf("chat template of %s: %v", e.Name, e.Err)
}

// Unwrap returns the cause.
func (e *TemplateError) Unwrap() error { return e.Err }

// ParseTemplate compiles a template. name stands for it in errors.
func ParseTemplate(name, source string) (*Template, error) {
	fail := func(err error) (*Template, error) { return nil, &TemplateError{Name: name, Err: err} }
	if len(source) > maxTemplate {
		return fail(fmt.Errorf("%d bytes, more than %d", len(source), maxTemplate))
	}
	text, literals, err := rewrite(source)
	if err != nil {
		return fail(err)
	}
	compiled, err := jinja.Compile(text)
	if err != nil {
		return fail(errors.New(strings.TrimPrefix(err.Error(), "jinja parse: ")))
	}
	t := &Template{name: name, source: source, compiled: compiled, literals: literals}
	t.traits = t.probe()
	return t, nil
}

// ReadTemplate compiles the template in a .jinja file.
func ReadTemplate(path string) (*Template, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return ParseTemplate(path, string(b))
}

// templateKey is the GGUF key of the template; named ones have .NAME after it.
const templateKey = "tokenizer.chat_template"

// TemplateNames returns the names of the templates in a model's metadata, ""
// for the one without.
func TemplateNames(meta *loaders.Metadata) []string {
	var names []string
	for _, k := range meta.Keys() {
		if name, ok := strings.CutPrefix(k, templateKey); ok && (name == "" || name[0] == '.') {
			names = append(names, strings.TrimPrefix(name, "."))
		}
	}
	slices.Sort(names)
	return names
}

// ModelTemplate compiles the template of a model file: the one with the given
// name, such as "tool_use", or for "" the only one or the one without a name.
// It returns ErrNoTemplate, wrapped, where there is none.
func ModelTemplate(meta *loaders.Metadata, file, name string) (*Template, error) {
	names := TemplateNames(meta)
	if len(names) == 0 {
		return nil, fmt.Errorf("%s: %w", file, ErrNoTemplate)
	}
	key := templateKey
	switch {
	case slices.Contains(names, name):
	case name == "" && slices.Contains(names, "default"):
		name = "default"
	case name == "" && len(names) == 1:
		name = names[0]
	default:
		return nil, fmt.Errorf("chat: %s has no chat template %q; known: %q", file, name, names)
	}
	if name != "" {
		key += "." + name
	}
	text, _, err := meta.String(key)
	if err != nil {
		return nil, err
	}
	return ParseTemplate(file, text)
}

// Source returns the template's text.
func (t *Template) Source() string { return t.source }

// prints reports whether the template's own text has s in it.
func (t *Template) prints(s string) bool {
	return slices.ContainsFunc(t.literals, func(l string) bool { return strings.Contains(l, s) })
}

// RenderJSON renders the template with the variables of a JSON object: messages,
// tools, add_generation_prompt, bos_token, eos_token and whatever else the
// template reads, in the form it reads. A string strftime_now is what the
// function of this name returns; without one it tells the time.
func (t *Template) RenderJSON(input []byte) (string, error) {
	v, err := decodeJSON(input)
	if err != nil {
		return "", fmt.Errorf("chat: template input: %w", err)
	}
	if !v.IsDict() {
		return "", errors.New("chat: template input: found no JSON object, want {\"messages\": [...], ...}")
	}
	return t.render(v.AsDict().Data, renderer{})
}

// renderer holds what the functions of one rendering know.
type renderer struct {
	now   time.Time
	plain func(string) string // undoes marks
	keep  func(rune) bool     // a mark, which tojson must not escape
	limit int                 // of steps, 0 is maxSteps
	steps int
	depth int
	budget
}

// maxSteps bounds the loop iterations of a rendering. Templates look back over
// all messages for each message.
const maxSteps = 4_000_000

// raisedError is what a template raised itself.
type raisedError struct{ text string }

func (e *raisedError) Error() string { return e.text }

// render runs the template on variables, which it does not change.
func (t *Template) render(input map[string]jinja.Value, r renderer) (out string, err error) {
	if r.limit == 0 {
		r.limit = maxSteps
	}
	vars := maps.Clone(scope())
	r.functions(vars)
	maps.Copy(vars, input)
	if v, ok := input["strftime_now"]; ok && v.IsString() {
		text := v.AsString()
		vars["strftime_now"] = jinja.NewCallable("strftime_now", func(a []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
			return jinja.NewString(text), nil
		})
	}
	// The library panics on some misuse of filters.
	defer func() {
		if p := recover(); p != nil {
			out, err = "", &TemplateError{Name: t.name, Err: fmt.Errorf("%v", p)}
		}
	}()
	out, err = t.compiled.RenderValues(vars)
	var raised *raisedError
	switch {
	case errors.As(err, &raised):
		return "", &TemplateError{Name: t.name, Raised: true, Err: raised}
	case err != nil:
		return "", &TemplateError{Name: t.name, Err: err}
	}
	return out, nil
}

// functions adds the functions that belong to one rendering.
func (r *renderer) functions(vars map[string]jinja.Value) {
	add := func(name string, fn jinjaFunc) { vars[name] = jinja.NewCallable(name, fn) }
	nothing := jinja.NewString("")
	add(strName, func(a []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		if len(a) != 1 {
			return nothing, nil
		}
		text := printText(a[0])
		return jinja.NewString(text), r.print(len(text))
	})
	add(sizeName, r.size)
	add(leftName, r.left)
	add(rightName, r.right)
	add(againName, r.again)
	add(filterName+"replace", r.replace)
	add(filterName+"indent", r.budget.indent)
	add(filterName+"join", r.budget.join)
	add(tickName, func([]jinja.Value, map[string]jinja.Value) (jinja.Value, error) {
		if r.steps++; r.steps > r.limit {
			return nothing, fmt.Errorf("its loops take more than %d steps", r.limit)
		}
		return nothing, nil
	})
	add(enterName, func([]jinja.Value, map[string]jinja.Value) (jinja.Value, error) {
		if r.depth++; r.depth > maxDepth {
			return nothing, fmt.Errorf("its macros are %w", errDepth)
		}
		return nothing, nil
	})
	add(leaveName, func([]jinja.Value, map[string]jinja.Value) (jinja.Value, error) {
		r.depth--
		return nothing, nil
	})
	add(filterName+"tojson", r.tojson)
	add(filterName+"dictsort", r.dictsort)
	add("tojson", r.tojson)
	add("range", func(a []jinja.Value, kwargs map[string]jinja.Value) (jinja.Value, error) {
		v, err := rangeFunc(a, kwargs)
		if err == nil {
			err = r.take(weight(v))
		}
		return v, err
	})
	add("raise_exception", func(a []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		text := ""
		if len(a) > 0 {
			text = printText(a[0])
		}
		if r.plain != nil {
			text = r.plain(text)
		}
		return nothing, &raisedError{text}
	})
	add("strftime_now", func(a []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		now := r.now
		if now.IsZero() {
			now = time.Now()
		}
		format := "%Y-%m-%d"
		if len(a) > 0 {
			format = printText(a[0])
		}
		return jinja.NewString(strftime(now, format)), nil
	})
}

// traits are what a template can take, found by rendering small conversations.
type traits struct {
	parts         bool // content may be a list of text parts
	textArguments bool // arguments of a tool call must be JSON text, not a mapping
	system        bool // there may be a system message
}

// probe finds the template's traits. A probe that fails says no.
func (t *Template) probe() traits {
	try := func(input string) string {
		v, err := decodeJSON([]byte(input))
		if err != nil {
			return ""
		}
		out, err := t.render(v.AsDict().Data, renderer{limit: 10000, budget: budget{small: true}})
		if err != nil {
			return ""
		}
		return out
	}
	const tail = `,"add_generation_prompt":true,"bos_token":"","eos_token":"","strftime_now":""}`
	var tr traits
	parts := try(`{"messages":[{"role":"user","content":[{"type":"text","text":"needle1"},{"type":"text","text":"needle2"}]}]` + tail)
	tr.parts = strings.Contains(parts, "needle1") && strings.Contains(parts, "needle2") && !strings.Contains(parts, "'text'") && !strings.Contains(parts, `"text"`)
	call := func(arguments string) string {
		return try(`{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"","tool_calls":[{"id":"call00001","type":"function","function":{"name":"f","arguments":` +
			arguments + `}}]},{"role":"tool","tool_call_id":"call00001","name":"f","content":"r"}]` + tail)
	}
	asMap, asText := call(`{"key":"needle"}`), call(`"{\"key\": \"needle\"}"`)
	tr.textArguments = (!strings.Contains(asMap, "needle") || strings.Contains(asMap, "'key'")) && strings.Contains(asText, `"key": "needle"`)
	tr.system = strings.Contains(try(`{"messages":[{"role":"system","content":"needle"},{"role":"user","content":"q"}]`+tail), "needle")
	return tr
}
