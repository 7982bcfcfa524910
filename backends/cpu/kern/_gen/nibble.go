package main

// nibbleFormat describes a format with 16 bytes of nibbles per block of 32:
// byte i holds element i in its low and element i+16 in its high half.
type nibbleFormat struct {
	name              string
	block, nib, scale int    // bytes per block; where nibbles and f16 scale lie
	min               int    // where the f16 minimum lies, or 0
	fifth             int    // where 32 fifth bits lie, or 0
	values            string // "iq4" or "mxfp4": a table of values replaces the nibble
}

var nibbleFormats = []*nibbleFormat{
	{name: "Q4_0", block: 18, nib: 2},
	{name: "Q4_1", block: 20, nib: 4, min: 2},
	{name: "Q5_0", block: 22, nib: 6, fifth: 2},
	{name: "Q5_1", block: 24, nib: 8, min: 2, fifth: 4},
	{name: "IQ4_NL", block: 18, nib: 2, values: "iq4"},
	{name: "MXFP4", block: 17, nib: 1, values: "mxfp4"},
}
