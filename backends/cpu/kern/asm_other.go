package kern

const haveAsm = false
