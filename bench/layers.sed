# Makes a C string literal of every line.
s/["\\]/\\&/g
s/.*/"&",/
