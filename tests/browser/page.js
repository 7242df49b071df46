// What the tests ask of a page. `cut`, `cutOnPage` and `pale` return what is at fault, as text.

const settled = () =>
    jupyterapp.shell.currentWidget.sessionContext.session.kernel.status === "idle"

const words = view => [...view.children].at(-1).textContent

const lastImage = view => [...view.querySelectorAll("img")].at(-1)

const state = view => ({src: lastImage(view).src, words: words(view)})

const changed = (view, old, redrawn) => {
    const image = lastImage(view), said = words(view)
    const isNew = image.src !== old.src && image.complete && image.alt === said
    return settled() && said !== old.words && (isNew || !redrawn || said.startsWith("⚠"))
}

const oneColour = image => {
    const canvas = new OffscreenCanvas(64, 64), context = canvas.getContext("2d")
    context.drawImage(image, 0, 0, 64, 64)
    const dots = new Uint32Array(context.getImageData(0, 0, 64, 64).data.buffer)
    return dots.every(dot => dot === dots[0])
}

// What reaches over the notebook's edge, or has more in it than it shows.
const cut = root => {
    const edge = root.closest(".jp-Notebook").getBoundingClientRect().right
    const isCut = element => element.getBoundingClientRect().right > edge
        || getComputedStyle(element).overflowX !== "visible"
        && element.scrollWidth > element.clientWidth + 1
    return [root, ...root.querySelectorAll("*")]
        .filter(element => element.checkVisibility() && element.clientWidth && isCut(element))
        .map(element => `${element.tagName}.${element.className}: ${element.textContent.trim()}`)
}

// The same for a page without Jupyter, whose cells clip what is too long.
const cutOnPage = () => [...document.querySelectorAll("pre, img, table")]
    .filter(element => {
        const frame = element.closest(".jp-Cell > *").getBoundingClientRect().right
        return rightEdge(element) > Math.min(innerWidth, frame) + 0.5
    })
    .map(element => element.alt ?? element.textContent)

const rightEdge = element => {  // of its words: the spaces at a line's end may hang over
    const texts = document.createTreeWalker(element, NodeFilter.SHOW_TEXT)
    const range = document.createRange()
    let right = element.matches("pre") ? 0 : element.getBoundingClientRect().right
    while (texts.nextNode()) {
        for (const word of texts.currentNode.data.matchAll(/\S+/g)) {
            range.setStart(texts.currentNode, word.index)
            range.setEnd(texts.currentNode, word.index + word[0].length)
            right = Math.max(right, range.getBoundingClientRect().right)
        }
    }
    return right
}

// The words that WCAG 2.2 would call too close to the colour behind them (1.4.3).
const pale = root => [root, ...root.querySelectorAll("*")]
    .filter(element => element.checkVisibility({opacityProperty: true}) && hasText(element))
    .filter(element => !element.disabled && !element.closest("svg, mjx-assistive-mml, option"))
    .map(element => [element, contrast(element)])
    .filter(([element, ratio]) => ratio < (isLarge(element) ? 3 : 4.5))
    .map(([element, ratio]) => `${ratio.toFixed(1)} ${element.tagName}: ${
        (element.value || element.textContent).trim().slice(0, 60)}`)

const hasText = element => element.matches("input, select") || [...element.childNodes].some(
    node => node.nodeType === Node.TEXT_NODE && /[^\s\u200b]/.test(node.data))

const isLarge = element => {
    const {fontSize, fontWeight} = getComputedStyle(element)
    return parseFloat(fontSize) >= (fontWeight >= 700 ? 18.66 : 24)
}

const contrast = element => {
    const below = background(element)
    const text = over(channels(getComputedStyle(element).color), below)
    const [dark, bright] = [luminance(text), luminance(below)].sort((a, b) => a - b)
    return (bright + 0.05) / (dark + 0.05)
}

const background = element => {
    if (!element) return [255, 255, 255]
    const color = channels(getComputedStyle(element).backgroundColor)
    return color[3] === 1 ? color : over(color, background(element.parentElement))
}

const over = (top, below) => [0, 1, 2].map(i => top[3] * top[i] + (1 - top[3]) * below[i])

const luminance = color => [0, 1, 2].map(i => color[i] / 255)
    .map(x => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4)
    .reduce((sum, x, i) => sum + x * [0.2126, 0.7152, 0.0722][i], 0)

const dot = new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true})

const channels = color => {  // of any way to write a colour in CSS
    dot.clearRect(0, 0, 1, 1)
    dot.fillStyle = color
    dot.fillRect(0, 0, 1, 1)
    const [r, g, b, a] = dot.getImageData(0, 0, 1, 1).data
    return [r, g, b, a / 255]
}
