package grammar

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// Limits of a schema.
const (
	maxNodes = 50_000 // values in the document
	maxRules = 20_000
)

// SchemaError says what in a schema is wrong or cannot be enforced.
type SchemaError struct {
	Path string // JSON pointer into the schema, "" is the whole
	Msg  string
}

// Error prints the path and what is wrong there.
func (e *SchemaError) Error() string {
	path := e.Path
	if path == "" {
		path = "/"
	}
	return fmt.Sprintf("grammar: schema: at %s: %s", path, e.Msg)
}

// node is a value of the schema document, with the order of its members.
type node struct {
	id     int
	parent *node
	token  string // its place in the parent
	kind   byte   // '{', '[', '"', '0', 't', 'f', 'n'
	keys   []string
	vals   []*node // members or elements
	text   string  // of a string, or a number as it is written
}

func (n *node) path() string {
	if n.parent == nil {
		return ""
	}
	return n.parent.path() + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(n.token)
}

func (n *node) errorf(format string, args ...any) error {
	return &SchemaError{n.path(), fmt.Sprintf(format, args...)}
}

// get returns a member, nil if there is none.
func (n *node) get(key string) *node {
	if i := slices.Index(n.keys, key); i >= 0 && n.kind == '{' {
		return n.vals[i]
	}
	return nil
}

// count returns the number of a keyword such as maxItems, or other if it is not
// there.
func (n *node) count(key string, other int) (int, error) {
	v := n.get(key)
	if v == nil {
		return other, nil
	}
	x, err := strconv.ParseFloat(v.text, 64)
	if err != nil || x != float64(int(x)) || x < 0 {
		return 0, v.errorf("%s is not a count", v.text)
	}
	if x > maxCount {
		return 0, v.errorf("%s is too large a count, at most %d is possible", v.text, maxCount)
	}
	return int(x), nil
}

// parseNodes reads a document.
func parseNodes(doc []byte) (*node, error) {
	if len(doc) > maxSource {
		return nil, &SchemaError{"", fmt.Sprintf("the schema has %d bytes, at most %d are read", len(doc), maxSource)}
	}
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	nodes := 0
	var read func(parent *node, token string, depth int) (*node, error)
	read = func(parent *node, token string, depth int) (*node, error) {
		t, err := d.Token()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, &SchemaError{"", fmt.Sprintf("not JSON: %v (byte %d)", err, d.InputOffset())}
		}
		n := &node{id: nodes, parent: parent, token: token}
		if nodes++; nodes > maxNodes {
			return nil, &SchemaError{"", fmt.Sprintf("the schema has more than %d values", maxNodes)}
		}
		if depth > maxNesting {
			return nil, &SchemaError{"", fmt.Sprintf("the schema is nested more than %d deep", maxNesting)}
		}
		switch x := t.(type) {
		case nil:
			n.kind = 'n'
		case bool:
			n.kind = strconv.FormatBool(x)[0]
		case string:
			n.kind, n.text = '"', x
		case json.Number:
			n.kind, n.text = '0', string(x)
		case json.Delim:
			n.kind = byte(x)
			seen := map[string]bool{}
			for d.More() {
				token := strconv.Itoa(len(n.vals))
				if n.kind == '{' {
					k, err := d.Token()
					if err != nil {
						return nil, &SchemaError{"", fmt.Sprintf("not JSON: %v (byte %d)", err, d.InputOffset())}
					}
					token = k.(string)
					if seen[token] {
						return nil, n.errorf("the member %q is there twice", token)
					}
					seen[token] = true
					n.keys = append(n.keys, token)
				}
				v, err := read(n, token, depth+1)
				if err != nil {
					return nil, err
				}
				n.vals = append(n.vals, v)
			}
			if _, err := d.Token(); err != nil {
				return nil, &SchemaError{"", fmt.Sprintf("not JSON: %v (byte %d)", err, d.InputOffset())}
			}
		}
		return n, nil
	}
	n, err := read(nil, "", 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, &SchemaError{"", fmt.Sprintf("something follows the schema (byte %d)", d.InputOffset())}
	}
	return n, nil
}

// value is what package encoding/json makes of a node, with json.Number.
func (n *node) value() any {
	switch n.kind {
	case '{':
		m := map[string]any{}
		for i, k := range n.keys {
			m[k] = n.vals[i].value()
		}
		return m
	case '[':
		list := []any{}
		for _, v := range n.vals {
			list = append(list, v.value())
		}
		return list
	case '"':
		return n.text
	case '0':
		return json.Number(n.text)
	case 't':
		return true
	case 'f':
		return false
	}
	return nil
}

// noFiles keeps the validator from reading files.
type noFiles struct{}

func (noFiles) Load(url string) (any, error) {
	return nil, fmt.Errorf("references outside of the schema are not followed: %s", url)
}

const docURL = "schema:///"

// validator compiles the schema with the library. Its patterns are read as a
// grammar reads them; those that cannot be read match nothing and are counted.
func validator(doc any, unknown *int) *jsonschema.Compiler {
	c := jsonschema.NewCompiler()
	c.UseLoader(noFiles{})
	c.UseRegexpEngine(func(s string) (jsonschema.Regexp, error) {
		r, err := goPattern(s)
		return &pattern{r, s, err != nil, unknown}, nil
	})
	c.AssertFormat()
	if err := c.AddResource(docURL, doc); err != nil {
		return nil
	}
	return c
}

type pattern struct {
	*regexp.Regexp
	src     string
	bad     bool
	unknown *int
}

func (p *pattern) String() string { return p.src }

func (p *pattern) MatchString(s string) bool {
	if p.bad {
		*p.unknown++
		return false
	}
	return p.Regexp.MatchString(s)
}

// checkSchema has the library look at the schema.
func checkSchema(c *jsonschema.Compiler) error {
	if c == nil {
		return &SchemaError{"", "the schema is not a resource"}
	}
	_, err := c.Compile(docURL)
	if err == nil {
		return nil
	}
	var bad *jsonschema.SchemaValidationError
	if errors.As(err, &bad) {
		var v *jsonschema.ValidationError
		if errors.As(bad.Err, &v) {
			for len(v.Causes) > 0 { // the deepest place
				best := v.Causes[0]
				for _, c := range v.Causes {
					if len(c.InstanceLocation) > len(best.InstanceLocation) {
						best = c
					}
				}
				v = best
			}
			path := ""
			for _, t := range v.InstanceLocation {
				path += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(t)
			}
			return &SchemaError{path, "not a valid schema: " + v.ErrorKind.LocalizedString(message.NewPrinter(language.English))}
		}
	}
	return &SchemaError{"", strings.ReplaceAll(err.Error(), docURL, "")}
}
