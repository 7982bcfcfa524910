package grammar

import (
	"math/big"
	"slices"
	"strings"
)

// digits before and after the point of a number without bounds.
const numberDigits = 16

// maxBoundDigits bounds the digits of minimum, maximum and multipleOf.
const maxBoundDigits = 60

func digit(lo, hi byte) *expr {
	if lo > hi {
		return none
	}
	return chars(rune(lo), rune(hi))
}

func digits(least, most int) *expr { return repeat(digit('0', '9'), least, most) }

// anyNumber is a number without bounds, or a whole one.
func anyNumber(whole bool) *expr {
	natural := alt(lit("0"), seq(digit('1', '9'), digits(0, numberDigits-1)))
	if whole {
		return alt(lit("0"), seq(opt(lit("-")), digit('1', '9'), digits(0, numberDigits-1)))
	}
	return seq(opt(lit("-")), natural, opt(seq(lit("."), digits(1, numberDigits))), opt(seq(chars('e', 'e', 'E', 'E'), opt(chars('+', '+', '-', '-')), digits(1, 2))))
}

// bound is a minimum or maximum.
type bound struct {
	x    *big.Rat // nil: there is none
	open bool     // the bound itself is left out
}

// numbers makes numbers of bounds and multipleOf.
func (c *compiler) numbers(nodes []*node, whole bool) (*expr, error) {
	var lo, hi bound
	places := numberDigits // after the point
	var factors []*big.Int
	at := nodes[0]
	for _, n := range nodes {
		for _, k := range []string{"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf"} {
			v := n.get(k)
			if v == nil {
				continue
			}
			x, ok := exact(v.text)
			if v.kind != '0' || !ok {
				return nil, v.errorf("%s cannot be enforced: want a number of at most %d digits", shorten(v.text), maxBoundDigits)
			}
			open := strings.HasPrefix(k, "exclusive")
			switch {
			case k == "multipleOf":
				at = v
				if x.Sign() <= 0 {
					return nil, v.errorf("multipleOf is %s, want more than 0", v.text)
				}
				if x.IsInt() {
					factors = append(factors, x.Num())
				} else if p := powerOfTen(x.Denom()); p > 0 && x.Num().Cmp(big.NewInt(1)) == 0 {
					places = min(places, p)
				} else {
					return nil, v.errorf("multipleOf %s cannot be enforced: want a whole number, or 0.1, 0.01 and so on", v.text)
				}
			case strings.HasSuffix(k, "inimum"):
				if lo.x == nil || x.Cmp(lo.x) > 0 || x.Cmp(lo.x) == 0 && open {
					lo = bound{x, open}
				}
			default:
				if hi.x == nil || x.Cmp(hi.x) < 0 || x.Cmp(hi.x) == 0 && open {
					hi = bound{x, open}
				}
			}
		}
	}
	factor := big.NewInt(1)
	for _, f := range factors { // the least common multiple
		gcd := new(big.Int).GCD(nil, nil, factor, f)
		factor = new(big.Int).Mul(factor, new(big.Int).Div(f, gcd))
	}
	one := factor.Cmp(big.NewInt(1)) == 0
	if len(factors) > 0 {
		whole = true
	}
	switch {
	case lo.x == nil && hi.x == nil && one && (whole || places == numberDigits):
		return anyNumber(whole), nil
	case whole && one:
		return integers(ceil(lo), floor(hi)), nil
	case whole:
		return multiples(at, factor, ceil(lo), floor(hi))
	}
	return decimals(lo, hi, places), nil
}

// exact reads a number as a fraction, unless it has too many digits.
func exact(text string) (*big.Rat, bool) {
	mantissa, exp, has := strings.Cut(strings.ToLower(text), "e")
	if len(mantissa) > maxBoundDigits || has && len(strings.TrimLeft(exp, "+-0")) > 2 {
		return nil, false
	}
	x, ok := new(big.Rat).SetString(text)
	return x, ok && len(x.FloatString(maxBoundDigits)) < 4*maxBoundDigits
}

// powerOfTen returns k of 10^k, 0 for anything else.
func powerOfTen(n *big.Int) int {
	s := n.String()
	if s[0] == '1' && strings.Trim(s[1:], "0") == "" {
		return len(s) - 1
	}
	return 0
}

// ceil returns the lowest whole number above a lower bound, nil without one.
func ceil(b bound) *big.Int {
	if b.x == nil {
		return nil
	}
	n := new(big.Int).Neg(floorRat(new(big.Rat).Neg(b.x)))
	if b.open && b.x.IsInt() {
		n.Add(n, big.NewInt(1))
	}
	return n
}

// floor returns the highest whole number below an upper bound, nil without one.
func floor(b bound) *big.Int {
	if b.x == nil {
		return nil
	}
	n := floorRat(b.x)
	if b.open && b.x.IsInt() {
		n.Sub(n, big.NewInt(1))
	}
	return n
}

// floorRat rounds down: big.Int.Div rounds so for positive divisors.
func floorRat(x *big.Rat) *big.Int { return new(big.Int).Div(x.Num(), x.Denom()) }

// wide is 10^n - 1 for n a few more digits than the bounds have.
func wide(bounds ...*big.Int) *big.Int {
	n := numberDigits
	for _, b := range bounds {
		if b != nil {
			n = max(n, len(b.String())+1)
		}
	}
	return new(big.Int).Sub(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil), big.NewInt(1))
}

// integers are the whole numbers from lo to hi; nil is without limit.
func integers(lo, hi *big.Int) *expr {
	top := wide(lo, hi)
	if lo == nil {
		lo = new(big.Int).Neg(top)
	}
	if hi == nil {
		hi = top
	}
	if lo.Cmp(hi) > 0 {
		return none
	}
	zero, minusOne := new(big.Int), big.NewInt(-1)
	var list []*expr
	if lo.Sign() < 0 { // -1 and below, by size
		nearest := hi
		if hi.Sign() >= 0 {
			nearest = minusOne
		}
		list = append(list, seq(lit("-"), naturals(new(big.Int).Neg(nearest), new(big.Int).Neg(lo))))
	}
	if hi.Sign() >= 0 {
		if lo.Sign() < 0 {
			lo = zero
		}
		list = append(list, naturals(lo, hi))
	}
	return alt(list...)
}

// naturals are the whole numbers from lo to hi, both 0 or more.
func naturals(lo, hi *big.Int) *expr {
	a, b := lo.String(), hi.String()
	if len(a) == len(b) {
		return between(a, b)
	}
	list := []*expr{between(a, strings.Repeat("9", len(a))), between("1"+strings.Repeat("0", len(b)-1), b)}
	if len(b)-len(a) > 1 {
		list = append(list, seq(digit('1', '9'), digits(len(a), len(b)-2)))
	}
	return alt(list...)
}

// between are the texts of as many digits as a and b have, from a to b.
func between(a, b string) *expr {
	n := 0
	for n < len(a) && a[n] == b[n] {
		n++
	}
	prefix := lit(a[:n])
	if n == 0 {
		prefix = empty
	}
	if n == len(a) {
		return prefix
	}
	rest := len(a) - n - 1
	list := []*expr{
		seq(lit(a[n:n+1]), fixed(a[n+1:], true)),
		seq(lit(b[n:n+1]), fixed(b[n+1:], false)),
	}
	if mid := digit(a[n]+1, b[n]-1); mid != none {
		list = append(list, seq(mid, digits(rest, rest)))
	}
	return seq(prefix, alt(list...))
}

// fixed are the texts of len(s) digits that are s or more, or s or less.
func fixed(s string, more bool) *expr {
	if s == "" {
		return empty
	}
	rest := len(s) - 1
	far := digit('0', s[0]-1)
	if more {
		far = digit(s[0]+1, '9')
	}
	return alt(seq(lit(s[:1]), fixed(s[1:], more)), seq(far, digits(rest, rest)))
}

const (
	maxMultiples = 2000 // written out one by one
	maxModulus   = 500  // counted by remainders
)

// multiples are the whole multiples of f from lo to hi.
func multiples(at *node, f, lo, hi *big.Int) (*expr, error) {
	if lo != nil && hi != nil {
		first := new(big.Int).Neg(floorRat(new(big.Rat).SetFrac(new(big.Int).Neg(lo), f)))
		last := floorRat(new(big.Rat).SetFrac(hi, f))
		n := new(big.Int).Sub(last, first)
		if n.Sign() < 0 {
			return none, nil
		}
		if n.Cmp(big.NewInt(maxMultiples)) < 0 {
			var list []*expr
			for i := int64(0); i <= n.Int64(); i++ {
				x := new(big.Int).Mul(new(big.Int).Add(first, big.NewInt(i)), f)
				list = append(list, lit(x.String()))
			}
			return alt(list...), nil
		}
	}
	if hi != nil || lo != nil && (lo.Sign() < 0 || lo.Cmp(big.NewInt(1)) > 0) {
		return nil, at.errorf("multipleOf %s together with these bounds cannot be enforced: more than %d numbers are possible", f, maxMultiples)
	}
	if f.Cmp(big.NewInt(maxModulus)) > 0 {
		return nil, at.errorf("multipleOf %s cannot be enforced: want at most %d, or bounds of at most %d multiples", f, maxModulus, maxMultiples)
	}
	m := int(f.Int64())
	positive := &expr{op: opGraph, size: 11 * m, build: func(b *builder, from int32) int32 {
		states := make([]int32, m) // by remainder
		for i := range states {
			states[i] = b.state()
		}
		for d := range 10 {
			c := byte('0' + d)
			if d > 0 {
				b.byteEdge(from, c, c, states[d%m])
			}
			for r, s := range states {
				b.byteEdge(s, c, c, states[(10*r+d)%m])
			}
		}
		return states[0]
	}}
	list := []*expr{positive}
	if lo == nil {
		list = []*expr{seq(opt(lit("-")), positive)}
	}
	if lo == nil || lo.Sign() == 0 {
		list = append(list, lit("0"))
	}
	return alt(list...), nil
}

// decimals are numbers from lo to hi without exponent, with at most so many
// places after the point.
func decimals(lo, hi bound, places int) *expr {
	top := wide(floor(hi), ceil(lo))
	if lo.x == nil {
		lo = bound{x: new(big.Rat).SetInt(new(big.Int).Neg(top))}
	}
	if hi.x == nil {
		hi = bound{x: new(big.Rat).SetInt(top)}
	}
	zero := bound{x: new(big.Rat)}
	if cmp := lo.x.Cmp(hi.x); cmp > 0 || cmp == 0 && (lo.open || hi.open) {
		return none
	}
	var list []*expr
	if lo.x.Sign() < 0 {
		near := zero
		if hi.x.Sign() < 0 {
			near = bound{new(big.Rat).Neg(hi.x), hi.open}
		} else {
			near.open = hi.x.Sign() == 0 && hi.open
		}
		list = append(list, seq(lit("-"), magnitudes(near, bound{new(big.Rat).Neg(lo.x), lo.open}, places)))
	}
	if hi.x.Sign() > 0 || hi.x.Sign() == 0 && !hi.open {
		near := zero
		if lo.x.Sign() >= 0 {
			near = lo
		}
		list = append(list, magnitudes(near, hi, places))
	}
	return alt(list...)
}

// magnitudes are decimals from lo to hi, both 0 or more.
func magnitudes(lo, hi bound, places int) *expr {
	a, b := floorRat(lo.x), floorRat(hi.x)
	fa, fb := fraction(lo.x, a), fraction(hi.x, b)
	whole := func(n *big.Int) *expr { return lit(n.String()) }
	if a.Cmp(b) == 0 {
		return seq(whole(a), point(&fracLow{fa, lo.open}, &fracHigh{fb, hi.open}, places))
	}
	list := []*expr{
		seq(whole(a), point(&fracLow{fa, lo.open}, nil, places)),
		seq(whole(b), point(nil, &fracHigh{fb, hi.open}, places)),
	}
	one := big.NewInt(1)
	if from, to := new(big.Int).Add(a, one), new(big.Int).Sub(b, one); from.Cmp(to) <= 0 {
		list = append(list, seq(naturals(from, to), point(nil, nil, places)))
	}
	return alt(list...)
}

// fraction returns the digits of x - n, without zeros at the end.
func fraction(x *big.Rat, n *big.Int) string {
	f := new(big.Rat).Sub(x, new(big.Rat).SetInt(n))
	return strings.TrimRight(strings.TrimPrefix(f.FloatString(4*maxBoundDigits), "0."), "0.")
}

// fracLow and fracHigh are bounds of the digits behind the point.
type (
	fracLow struct {
		s    string
		open bool
	}
	fracHigh struct {
		s    string
		open bool
	}
)

// point is what may follow a whole number: nothing, or a point and digits.
func point(lo *fracLow, hi *fracHigh, places int) *expr {
	zeroFits := (lo == nil || lo.s == "" && !lo.open) && (hi == nil || hi.s != "" || !hi.open)
	f := seq(lit("."), fractionDigits(lo, hi, places))
	if zeroFits {
		return opt(f)
	}
	return f
}

// fractionDigits are one digit or more within the bounds.
func fractionDigits(lo *fracLow, hi *fracHigh, places int) *expr {
	if places <= 0 {
		return none
	}
	if lo != nil && lo.s == "" && !lo.open {
		lo = nil
	}
	a, b := byte('0'), byte('9')
	if lo != nil && lo.s != "" {
		a = lo.s[0]
	}
	if hi != nil {
		b = '0'
		if hi.s != "" {
			b = hi.s[0]
		}
	}
	var list []*expr
	for c := a; c <= b; c++ {
		var l *fracLow
		var h *fracHigh
		if lo != nil && (lo.s == "" && c == '0' || lo.s != "" && c == a) {
			l = &fracLow{tail(lo.s), lo.open}
		}
		if hi != nil && c == b {
			h = &fracHigh{tail(hi.s), hi.open}
		}
		if l == nil && h == nil {
			end := c
			for end < b && !(hi != nil && end+1 == b) {
				end++
			}
			list = append(list, seq(digit(c, end), digits(0, places-1)))
			c = end
			continue
		}
		more := fractionDigits(l, h, places-1)
		if stop := (l == nil || l.s == "" && !l.open) && (h == nil || h.s != "" || !h.open); stop {
			more = alt(empty, more)
		}
		list = append(list, seq(lit(string(c)), more))
	}
	return alt(list...)
}

func tail(s string) string {
	if s == "" {
		return ""
	}
	return s[1:]
}

// formats are the formats of strings that are known, as patterns. Some match
// less than their format: what is written is valid all the same.
var formats = func() map[string]string {
	const (
		year  = `[0-9]{4}`
		leap  = `(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)`
		date  = `(?:` + year + `-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))|` + leap + `-02-29)`
		time  = `(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,9})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])`
		octet = `(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])`
		label = `[A-Za-z0-9](?:[A-Za-z0-9-]{0,28}[A-Za-z0-9])?`
		host  = label + `(?:\.` + label + `){0,4}`
		safe  = `(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})`
		path  = `(?:/` + safe + `*)*(?:\?(?:` + safe + `|[/?])*)?(?:#(?:` + safe + `|[/?])*)?`
		local = `[A-Za-z0-9_+-]{1,20}`
	)
	uri := `(?:https?|ftp)://` + host + `(?::[1-9][0-9]{0,3})?` + path
	f := map[string]string{
		"date": date, "time": time, "date-time": date + `T` + time,
		"uuid":         `[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}`,
		"ipv4":         octet + `(?:\.` + octet + `){3}`,
		"ipv6":         `(?:[0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}`,
		"hostname":     host,
		"email":        local + `(?:\.` + local + `){0,2}@` + label + `(?:\.` + label + `){1,4}`,
		"uri":          uri,
		"duration":     `P(?:[0-9]{1,9}W|(?:[0-9]{1,9}Y)?(?:[0-9]{1,9}M)?(?:[0-9]{1,9}D)T(?:[0-9]{1,9}H|(?:[0-9]{1,9}H)?(?:[0-9]{1,9}M)|(?:[0-9]{1,9}H)?(?:[0-9]{1,9}M)?[0-9]{1,9}S)|(?:[0-9]{1,9}Y|(?:[0-9]{1,9}Y)?[0-9]{1,9}M|(?:[0-9]{1,9}Y)?(?:[0-9]{1,9}M)?[0-9]{1,9}D)|T(?:[0-9]{1,9}H|(?:[0-9]{1,9}H)?[0-9]{1,9}M|(?:[0-9]{1,9}H)?(?:[0-9]{1,9}M)?[0-9]{1,9}S))`,
		"json-pointer": `(?:/(?:[^/~]|~[01])*)*`,
	}
	f["uri-reference"] = `(?:` + uri + `|` + path + `)`
	for k, v := range f {
		f[k] = `^(?:` + v + `)$`
	}
	return f
}()

func knownFormats() string {
	var names []string
	for k := range formats {
		names = append(names, k)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
