package chat

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/ardanlabs/jinja"
)

type jinjaFunc = func(args []jinja.Value, kwargs map[string]jinja.Value) (jinja.Value, error)

// filters are the filters that the library lacks or does in another way than
// the reference implementation. tojson and dictsort know about marks and are
// made for each rendering.
var filters map[string]jinjaFunc

func init() {
	filters = map[string]jinjaFunc{
		"tojson": nil, "dictsort": nil, "replace": nil, "indent": nil, "join": nil,
		"fromjson": fromJSON, "from_json": fromJSON,
		"string": func(a []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
			return jinja.NewString(printText(a[0])), nil
		},
		"trim":   trimFilter,
		"escape": escapeFilter, "e": escapeFilter,
		"first": func(a []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) { return edge(a[0], false), nil },
		"last":  func(a []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) { return edge(a[0], true), nil },
		"list": func(a []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
			items, err := itemsOf(a[0])
			return jinja.NewList(slices.Clone(items)), err
		},
		"map": mapFilter, "sort": sortFilter, "length": lengthFilter, "count": lengthFilter,
		"select": func(a []jinja.Value, k map[string]jinja.Value) (jinja.Value, error) {
			return selectItems(a, k, false, true)
		},
		"reject": func(a []jinja.Value, k map[string]jinja.Value) (jinja.Value, error) {
			return selectItems(a, k, false, false)
		},
		"selectattr": func(a []jinja.Value, k map[string]jinja.Value) (jinja.Value, error) {
			return selectItems(a, k, true, true)
		},
		"rejectattr": func(a []jinja.Value, k map[string]jinja.Value) (jinja.Value, error) {
			return selectItems(a, k, true, false)
		},
	}
}

// scope returns the functions every rewritten template can call.
var scope = sync.OnceValue(func() map[string]jinja.Value {
	vars := map[string]jinja.Value{}
	for name, fn := range filters {
		if fn != nil {
			vars[filterName+name] = jinja.NewCallable(name, fn)
		}
	}
	vars[attrName] = jinja.NewCallable("attribute", attrFilter)
	vars[itemName] = jinja.NewCallable("item", itemFilter)
	for name, test := range tests {
		for prefix, want := range map[string]bool{testName: true, notName: false} {
			vars[prefix+name] = jinja.NewCallable(name, func(a []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
				ok, err := runTest(name, test, a)
				return jinja.NewBool(ok == want), err
			})
		}
	}
	return vars
})

// tests are the tests a template can ask for after "is". Those with args want
// that many arguments.
var tests = map[string]struct {
	args int
	fn   func(v jinja.Value, args []jinja.Value) bool
}{
	"defined":   {0, func(v jinja.Value, _ []jinja.Value) bool { return !v.IsUndefined() }},
	"undefined": {0, func(v jinja.Value, _ []jinja.Value) bool { return v.IsUndefined() }},
	"none":      {0, func(v jinja.Value, _ []jinja.Value) bool { return v.IsNone() }},
	"boolean":   {0, func(v jinja.Value, _ []jinja.Value) bool { return v.IsBool() }},
	"true":      {0, func(v jinja.Value, _ []jinja.Value) bool { return v.IsBool() && v.AsBool() }},
	"false":     {0, func(v jinja.Value, _ []jinja.Value) bool { return v.IsBool() && !v.AsBool() }},
	"integer":   {0, func(v jinja.Value, _ []jinja.Value) bool { return v.IsInt() }},
	"float":     {0, func(v jinja.Value, _ []jinja.Value) bool { return v.IsFloat() }},
	"number":    {0, func(v jinja.Value, _ []jinja.Value) bool { return v.IsNumber() || v.IsBool() }},
	"string":    {0, func(v jinja.Value, _ []jinja.Value) bool { return v.IsString() }},
	"mapping":   {0, func(v jinja.Value, _ []jinja.Value) bool { return v.IsDict() }},
	"sequence":  {0, func(v jinja.Value, _ []jinja.Value) bool { return v.IsList() || v.IsDict() || v.IsString() }},
	"iterable": {0, func(v jinja.Value, _ []jinja.Value) bool {
		return v.IsList() || v.IsDict() || v.IsString() || v.IsUndefined()
	}},
	"callable": {0, func(v jinja.Value, _ []jinja.Value) bool { return v.IsCallable() }},
	"odd":      {0, func(v jinja.Value, _ []jinja.Value) bool { return v.IsInt() && v.AsInt()%2 != 0 }},
	"even":     {0, func(v jinja.Value, _ []jinja.Value) bool { return v.IsInt() && v.AsInt()%2 == 0 }},
	"divisibleby": {1, func(v jinja.Value, a []jinja.Value) bool {
		return v.IsInt() && a[0].IsInt() && a[0].AsInt() != 0 && v.AsInt()%a[0].AsInt() == 0
	}},
	"upper":       {0, func(v jinja.Value, _ []jinja.Value) bool { return hasCase(v, unicode.IsUpper, unicode.IsLower) }},
	"lower":       {0, func(v jinja.Value, _ []jinja.Value) bool { return hasCase(v, unicode.IsLower, unicode.IsUpper) }},
	"in":          {1, func(v jinja.Value, a []jinja.Value) bool { return contains(a[0], v) }},
	"eq":          {1, func(v jinja.Value, a []jinja.Value) bool { return equal(v, a[0]) }},
	"equalto":     {1, func(v jinja.Value, a []jinja.Value) bool { return equal(v, a[0]) }},
	"sameas":      {1, func(v jinja.Value, a []jinja.Value) bool { return v.Equals(a[0]) }},
	"ne":          {1, func(v jinja.Value, a []jinja.Value) bool { return !equal(v, a[0]) }},
	"lt":          {1, func(v jinja.Value, a []jinja.Value) bool { return compare(v, a[0]) < 0 }},
	"lessthan":    {1, func(v jinja.Value, a []jinja.Value) bool { return compare(v, a[0]) < 0 }},
	"le":          {1, func(v jinja.Value, a []jinja.Value) bool { return compare(v, a[0]) <= 0 }},
	"gt":          {1, func(v jinja.Value, a []jinja.Value) bool { return compare(v, a[0]) > 0 }},
	"greaterthan": {1, func(v jinja.Value, a []jinja.Value) bool { return compare(v, a[0]) > 0 }},
	"ge":          {1, func(v jinja.Value, a []jinja.Value) bool { return compare(v, a[0]) >= 0 }},
}

func runTest(name string, t struct {
	args int
	fn   func(jinja.Value, []jinja.Value) bool
}, a []jinja.Value) (bool, error) {
	if len(a) != t.args+1 {
		return false, fmt.Errorf("test %q takes %d arguments, found %d", name, t.args, len(a)-1)
	}
	return t.fn(a[0], a[1:]), nil
}

func hasCase(v jinja.Value, yes, no func(rune) bool) bool {
	return v.IsString() && strings.ContainsFunc(v.AsString(), yes) && !strings.ContainsFunc(v.AsString(), no)
}

// equal compares as Python's == does: numbers by value.
func equal(a, b jinja.Value) bool {
	if a.IsNumber() && b.IsNumber() {
		return number(a) == number(b)
	}
	return a.Equals(b)
}

func number(v jinja.Value) float64 {
	switch {
	case v.IsInt():
		return float64(v.AsInt())
	case v.IsFloat():
		return v.AsFloat()
	case v.IsBool() && v.AsBool():
		return 1
	}
	return 0
}

func compare(a, b jinja.Value) int {
	if a.IsString() && b.IsString() {
		return strings.Compare(a.AsString(), b.AsString())
	}
	x, y := number(a), number(b)
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

func contains(list, v jinja.Value) bool {
	switch {
	case list.IsString():
		return v.IsString() && strings.Contains(list.AsString(), v.AsString())
	case list.IsDict():
		return v.IsString() && list.AsDict().Has(v.AsString())
	case list.IsList():
		return slices.ContainsFunc(list.AsList().Items, func(x jinja.Value) bool { return equal(x, v) })
	}
	return false
}

// itemsOf returns what a loop over v would go through.
func itemsOf(v jinja.Value) ([]jinja.Value, error) {
	switch {
	case v.IsList():
		return v.AsList().Items, nil
	case v.IsDict():
		var out []jinja.Value
		for _, k := range v.AsDict().Keys {
			out = append(out, jinja.NewString(k))
		}
		return out, nil
	case v.IsString():
		var out []jinja.Value
		for _, r := range v.AsString() {
			out = append(out, jinja.NewString(string(r)))
		}
		return out, nil
	case v.IsUndefined():
		return nil, nil
	}
	return nil, fmt.Errorf("%s is no list", printText(v))
}

func edge(v jinja.Value, last bool) jinja.Value {
	items, err := itemsOf(v)
	if err != nil || len(items) == 0 {
		return jinja.Undefined()
	}
	if last {
		return items[len(items)-1]
	}
	return items[0]
}

func lengthFilter(a []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	items, err := itemsOf(a[0])
	if err != nil {
		return jinja.Undefined(), fmt.Errorf("length: %w", err)
	}
	return jinja.NewInt(int64(len(items))), nil
}

// isSpace is what Python's str.strip takes away.
func isSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1C && r <= 0x1F }

func trimFilter(a []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	s := printText(a[0])
	if len(a) > 1 && !a[1].IsNone() {
		return jinja.NewString(strings.Trim(s, printText(a[1]))), nil
	}
	return jinja.NewString(strings.TrimFunc(s, isSpace)), nil
}

var escaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;")

func escapeFilter(a []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	return jinja.NewString(escaper.Replace(printText(a[0]))), nil
}

func fromJSON(a []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	v, err := decodeJSON([]byte(printText(a[0])))
	if err != nil {
		return v, fmt.Errorf("fromjson: %w", err)
	}
	return v, nil
}

// attribute follows a path such as function.name.
func attribute(v jinja.Value, path string) jinja.Value {
	for part := range strings.SplitSeq(path, ".") {
		switch {
		case v.IsDict():
			x, ok := v.AsDict().Get(part)
			if !ok {
				return jinja.Undefined()
			}
			v = x
		case v.IsList():
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= v.AsList().Len() {
				return jinja.Undefined()
			}
			v = v.AsList().Get(i)
		default:
			return jinja.Undefined()
		}
	}
	return v
}

// attrFilter is x.name.
func attrFilter(a []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	if a[0].IsUndefined() {
		return a[0], fmt.Errorf("an undefined value has no attribute %q", a[1].AsString())
	}
	return attribute(a[0], a[1].AsString()), nil
}

// itemFilter is x[key]. What is not there is undefined.
func itemFilter(a []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	if len(a) != 2 {
		return jinja.Undefined(), errors.New("brackets hold no key")
	}
	v, key := a[0], a[1]
	switch {
	case v.IsUndefined():
		return v, fmt.Errorf("an undefined value has no item %s", string(appendRepr(nil, key, 0)))
	case v.IsDict():
		if x, ok := v.AsDict().Get(printText(key)); ok && !key.IsNone() {
			return x, nil
		}
	case key.IsInt() || key.IsBool():
		items, err := itemsOf(v)
		if err != nil {
			break
		}
		i := int(number(key))
		if i < 0 {
			i += len(items)
		}
		if i >= 0 && i < len(items) {
			return items[i], nil
		}
	}
	return jinja.Undefined(), nil
}

// option returns an argument given by place or by name.
func option(a []jinja.Value, kwargs map[string]jinja.Value, i int, name string) jinja.Value {
	if v, ok := kwargs[name]; ok {
		return v
	}
	if i < len(a) {
		return a[i]
	}
	return jinja.Undefined()
}

func joinFilter(a []jinja.Value, kwargs map[string]jinja.Value) (jinja.Value, error) {
	items, err := itemsOf(a[0])
	if err != nil {
		return jinja.Undefined(), fmt.Errorf("join: %w", err)
	}
	attr := option(a, kwargs, 2, "attribute")
	parts := make([]string, len(items))
	for i, v := range items {
		if !attr.IsUndefined() && !attr.IsNone() {
			v = attribute(v, printText(attr))
		}
		parts[i] = printText(v)
	}
	return jinja.NewString(strings.Join(parts, printText(option(a, kwargs, 1, "d")))), nil
}

func mapFilter(a []jinja.Value, kwargs map[string]jinja.Value) (jinja.Value, error) {
	items, err := itemsOf(a[0])
	if err != nil {
		return jinja.Undefined(), fmt.Errorf("map: %w", err)
	}
	out := make([]jinja.Value, len(items))
	if attr, ok := kwargs["attribute"]; ok {
		for i, v := range items {
			out[i] = attribute(v, printText(attr))
			if def, ok := kwargs["default"]; ok && out[i].IsUndefined() {
				out[i] = def
			}
		}
		return jinja.NewList(out), nil
	}
	if len(a) < 2 {
		return jinja.Undefined(), errors.New("map: no filter is named")
	}
	for i, v := range items {
		out[i], err = callFilter(printText(a[1]), append([]jinja.Value{v}, a[2:]...), kwargs)
		if err != nil {
			return jinja.Undefined(), err
		}
	}
	return jinja.NewList(out), nil
}

// callFilter runs a filter by name, one of ours or the library's.
func callFilter(name string, args []jinja.Value, kwargs map[string]jinja.Value) (jinja.Value, error) {
	if fn := filters[name]; fn != nil {
		return fn(args, kwargs)
	}
	if _, ok := filters[name]; ok {
		return (&renderer{}).special(name)(args, kwargs)
	}
	for i := range len(name) {
		if !isNameByte(name[i]) {
			return jinja.Undefined(), fmt.Errorf("unknown filter %q", name)
		}
	}
	var result jinja.Value
	vars := map[string]jinja.Value{"keep_": jinja.NewCallable("keep_", func(a []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		result = a[0]
		return jinja.NewString(""), nil
	})}
	var src strings.Builder
	src.WriteString("{{keep_(a0|" + name + "(")
	for i, v := range args {
		vars["a"+strconv.Itoa(i)] = v
		if i > 0 {
			fmt.Fprintf(&src, "a%d,", i)
		}
	}
	for i, k := range slices.Sorted(maps.Keys(kwargs)) {
		fmt.Fprintf(&src, "%s=k%d,", k, i)
		vars["k"+strconv.Itoa(i)] = kwargs[k]
	}
	src.WriteString("))}}")
	t, err := jinja.Compile(src.String())
	if err != nil {
		return jinja.Undefined(), err
	}
	_, err = t.RenderValues(vars)
	return result, err
}

func selectItems(a []jinja.Value, _ map[string]jinja.Value, byAttr, want bool) (jinja.Value, error) {
	items, err := itemsOf(a[0])
	if err != nil {
		return jinja.Undefined(), fmt.Errorf("select: %w", err)
	}
	rest, attr := a[1:], ""
	if byAttr {
		if len(rest) == 0 {
			return jinja.Undefined(), errors.New("selectattr: no attribute is named")
		}
		attr, rest = printText(rest[0]), rest[1:]
	}
	var out []jinja.Value
	for _, item := range items {
		v := item
		if byAttr {
			v = attribute(item, attr)
		}
		ok := v.IsTruthy()
		if len(rest) > 0 {
			name := printText(rest[0])
			name = map[string]string{"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}[name] + name
			name = strings.TrimRight(name, "=!<>")
			t, known := tests[name]
			if !known {
				return jinja.Undefined(), fmt.Errorf("unknown test %q", name)
			}
			if ok, err = runTest(name, t, append([]jinja.Value{v}, rest[1:]...)); err != nil {
				return jinja.Undefined(), err
			}
		}
		if ok == want {
			out = append(out, item)
		}
	}
	return jinja.NewList(out), nil
}

func sortFilter(a []jinja.Value, kwargs map[string]jinja.Value) (jinja.Value, error) {
	items, err := itemsOf(a[0])
	if err != nil {
		return jinja.Undefined(), fmt.Errorf("sort: %w", err)
	}
	reverse := option(a, kwargs, 1, "reverse").IsTruthy()
	exact := option(a, kwargs, 2, "case_sensitive").IsTruthy()
	attr := option(a, kwargs, 3, "attribute")
	key := func(v jinja.Value) jinja.Value {
		if attr.IsString() {
			v = attribute(v, attr.AsString())
		}
		if v.IsString() && !exact {
			v = jinja.NewString(strings.ToLower(v.AsString()))
		}
		return v
	}
	out := slices.Clone(items)
	slices.SortStableFunc(out, func(x, y jinja.Value) int {
		if reverse {
			x, y = y, x
		}
		return compare(key(x), key(y))
	})
	return jinja.NewList(out), nil
}

// sortKeys sorts names, by lower case when fold is set, after plain has undone
// what they are marked with.
func sortKeys(keys []string, plain func(string) string, fold bool) {
	by := func(s string) string {
		if plain != nil {
			s = plain(s)
		}
		if fold {
			s = strings.ToLower(s)
		}
		return s
	}
	slices.SortStableFunc(keys, func(a, b string) int { return strings.Compare(by(a), by(b)) })
}

// special returns a filter that needs to know about marks.
func (r *renderer) special(name string) jinjaFunc {
	switch name {
	case "dictsort":
		return r.dictsort
	case "replace":
		return r.replace
	case "indent":
		return r.budget.indent
	case "join":
		return r.budget.join
	}
	return r.tojson
}

// dictsort gives the pairs of a mapping, by key without regard to case unless
// told otherwise.
func (r *renderer) dictsort(a []jinja.Value, kwargs map[string]jinja.Value) (jinja.Value, error) {
	if !a[0].IsDict() {
		return jinja.Undefined(), errors.New("dictsort: the value is no mapping")
	}
	d := a[0].AsDict()
	exact := option(a, kwargs, 1, "case_sensitive").IsTruthy()
	by := option(a, kwargs, 2, "by")
	reverse := option(a, kwargs, 3, "reverse").IsTruthy()
	keys := d.OrderedKeys()
	if by.IsString() && by.AsString() == "value" {
		slices.SortStableFunc(keys, func(x, y string) int { return compare(d.Data[x], d.Data[y]) })
	} else {
		sortKeys(keys, r.plain, !exact)
	}
	if reverse {
		slices.Reverse(keys)
	}
	pairs := make([]jinja.Value, len(keys))
	for i, k := range keys {
		pairs[i] = jinja.NewList([]jinja.Value{jinja.NewString(k), d.Data[k]})
	}
	return jinja.NewList(pairs), nil
}

// tojson writes a value as transformers' templates expect: keys in their order,
// nothing escaped for HTML.
func (r *renderer) tojson(a []jinja.Value, kwargs map[string]jinja.Value) (jinja.Value, error) {
	s := pythonJSON()
	s.plain, s.keep = r.plain, r.keep
	s.ascii = option(a, kwargs, 1, "ensure_ascii").IsTruthy()
	switch indent := option(a, kwargs, 2, "indent"); {
	case indent.IsInt():
		s.pretty, s.indent = true, strings.Repeat(" ", int(min(max(indent.AsInt(), 0), 64)))
	case indent.IsString():
		s.pretty, s.indent = true, indent.AsString()
	}
	if s.pretty {
		s.item = ","
	}
	if sep := option(a, kwargs, 3, "separators"); sep.IsList() {
		if sep.AsList().Len() != 2 {
			return jinja.Undefined(), errors.New("tojson: separators must be two strings")
		}
		s.item, s.key = printText(sep.AsList().Get(0)), printText(sep.AsList().Get(1))
	}
	s.sort = option(a, kwargs, 4, "sort_keys").IsTruthy()
	b, err := appendJSON(nil, a[0], &s, 0)
	if err != nil {
		return jinja.Undefined(), fmt.Errorf("tojson: %w", err)
	}
	return jinja.NewString(string(b)), nil
}

// rangeLimit is the longest range a template may make, as in the sandbox of the
// reference implementation.
const rangeLimit = 100000

func rangeFunc(a []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	if len(a) == 0 || len(a) > 3 {
		return jinja.Undefined(), fmt.Errorf("range: takes 1 to 3 arguments, found %d", len(a))
	}
	n := [3]int64{0, 0, 1}
	for i, v := range a {
		if !v.IsInt() {
			return jinja.Undefined(), fmt.Errorf("range: found %s, want whole numbers", printText(v))
		}
		n[i] = v.AsInt()
	}
	if len(a) == 1 {
		n[0], n[1] = 0, n[0]
	}
	if n[2] == 0 {
		return jinja.Undefined(), errors.New("range: the step is 0")
	}
	if math.Abs(float64(n[1]-n[0])/float64(n[2])) > rangeLimit {
		return jinja.Undefined(), fmt.Errorf("range: more than %d numbers", rangeLimit)
	}
	var items []jinja.Value
	for i := n[0]; n[2] > 0 && i < n[1] || n[2] < 0 && i > n[1]; i += n[2] {
		items = append(items, jinja.NewInt(i))
	}
	return jinja.NewList(items), nil
}
