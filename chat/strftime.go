package chat

import (
	"fmt"
	"strings"
	"time"
)

// strftime formats a time as Python's strftime does in the C locale. Unknown
// directives stay as they are.
func strftime(t time.Time, format string) string {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 >= len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		bare := format[i] == '-' && i+1 < len(format) // no leading zero
		if bare {
			i++
		}
		text, ok := directive(t, format[i])
		switch {
		case !ok && bare:
			b.WriteString("%-" + string(format[i]))
		case !ok:
			b.WriteString("%" + string(format[i]))
		case bare:
			text = strings.TrimLeft(text, "0 ")
			if text == "" {
				text = "0"
			}
			b.WriteString(text)
		default:
			b.WriteString(text)
		}
	}
	return b.String()
}

func directive(t time.Time, c byte) (string, bool) {
	layouts := map[byte]string{
		'a': "Mon", 'A': "Monday", 'b': "Jan", 'h': "Jan", 'B': "January", 'd': "02", 'e': "_2", 'm': "01", 'y': "06", 'Y': "2006",
		'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM", 'z': "-0700", 'Z': "MST", 'j': "002",
		'c': "Mon Jan _2 15:04:05 2006", 'x': "01/02/06", 'D': "01/02/06", 'X': "15:04:05", 'T': "15:04:05", 'R': "15:04",
		'F': "2006-01-02", 'r': "03:04:05 PM",
	}
	if l, ok := layouts[c]; ok {
		return t.Format(l), true
	}
	year, week := t.ISOWeek()
	switch c {
	case 'f':
		return fmt.Sprintf("%06d", t.Nanosecond()/1000), true
	case 'w':
		return fmt.Sprint(int(t.Weekday())), true
	case 'u':
		return fmt.Sprint((int(t.Weekday())+6)%7 + 1), true
	case 'U':
		return fmt.Sprintf("%02d", (t.YearDay()+6-int(t.Weekday()))/7), true
	case 'W':
		return fmt.Sprintf("%02d", (t.YearDay()+6-(int(t.Weekday())+6)%7)/7), true
	case 'G':
		return fmt.Sprint(year), true
	case 'V':
		return fmt.Sprintf("%02d", week), true
	case 'C':
		return fmt.Sprintf("%02d", t.Year()/100), true
	case 's':
		return fmt.Sprint(t.Unix()), true
	case 'n':
		return "\n", true
	case 't':
		return "\t", true
	case '%':
		return "%", true
	}
	return "", false
}
