// Shows the values of the round under the pointer. The page is complete without it.
(() => {
  const data = JSON.parse(document.getElementById("rounds").textContent);
  const names = [["loss", "loss"], ["accuracy", "accuracy"], ["mae", "MAE"], ["no_change", "NoChange"]];

  const nearest = (round) => {
    let low = 0, high = data.round.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (data.round[middle] < round) low = middle; else high = middle;
    }
    return round - data.round[low] <= data.round[high] - round ? low : high;
  };

  const describe = (i) => [`round ${data.round[i]}`, `epoch ${data.epoch[i]}`]
    .concat(names.filter(([key]) => data[key]).map(([key, name]) => `${name} ${data[key][i] ?? "–"}`)).join("   ");

  for (const plot of document.querySelectorAll("svg.plot")) {
    const { left, right, first, last } = Object.fromEntries(
      Object.entries(plot.dataset).map(([key, value]) => [key, Number(value)]));
    const cross = plot.querySelector(".cross");
    const figure = plot.closest("figure");
    const tip = figure.querySelector(".tip");
    plot.addEventListener("pointermove", (event) => {
      const box = plot.getBoundingClientRect();
      const unit = box.width / plot.viewBox.baseVal.width;
      const i = nearest(first + ((event.clientX - box.left) / unit - left) / (right - left) * (last - first));
      const x = left + (data.round[i] - first) / (last - first) * (right - left);
      cross.setAttribute("transform", `translate(${x} 0)`);
      cross.setAttribute("visibility", "visible");
      tip.textContent = describe(i);
      tip.hidden = false;
      // Below the axis, so that it hides no curve.
      const room = figure.clientWidth - tip.offsetWidth;
      tip.style.left = `${Math.max(0, Math.min(room, x * unit - tip.offsetWidth / 2))}px`;
      tip.style.top = `${box.bottom - figure.getBoundingClientRect().top - tip.offsetHeight}px`;
    });
    plot.addEventListener("pointerleave", () => {
      cross.setAttribute("visibility", "hidden");
      tip.hidden = true;
    });
  }
})();
